"""An API server over HTTP that has a few objects, and the right to read no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from swerl_kube import ClusterConfig, Credentials, KubeClient

NAMESPACE = "runs"


@asynccontextmanager
async def api(
    lists: Mapping[str, Sequence[Mapping[str, Any]]], logs: Mapping[str, bytes] | None = None
) -> AsyncIterator[KubeClient]:
    """A client of a server that lists these objects by resource, and has these logs by Pod."""

    async def answer(request: web.Request) -> web.Response:
        *_, owner, name = request.path.split("/")
        if name == "log" and owner in (logs or {}):
            return web.Response(body=(logs or {})[owner])
        if name in lists:
            return web.json_response({"kind": "List", "metadata": {}, "items": lists[name]})
        text = f"{name} is forbidden: User cannot list resource"
        return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden", "message": text}, status=403)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with TestServer(application) as served:
        config = ClusterConfig(str(served.make_url("")).rstrip("/"), NAMESPACE, None, Credentials())
        async with KubeClient(config) as client:
            yield client
