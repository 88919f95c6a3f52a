"""An API server over real HTTP that refuses its first requests with a Retry-After header."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import WSMsgType, web

from tests.kubeconfig import write_kubeconfig

OK = (200, "")
BODY: dict[str, Any] = {"metadata": {"name": "x", "namespace": "ns", "resourceVersion": "7"}, "items": []}
POD = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "8"}}


class BusyServer:
    """`refusals` are status and Retry-After (none where empty) of the first answers, OK for one as it should be."""

    def __init__(self, *refusals: tuple[int, str]) -> None:
        self._refusals = list(refusals)
        self.requests: list[tuple[float, str, str]] = []  # monotonic seconds, method, path
        self.url = ""

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def kubeconfig(self, path: Path) -> str:
        """A kubeconfig for this server, written to `path`."""
        return write_kubeconfig(path, self.url, namespace="ns")

    @property
    def pauses(self) -> list[float]:
        """Seconds between one request and the next."""
        times = [when for when, _, _ in self.requests]
        return [later - sooner for sooner, later in itertools.pairwise(times)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((time.monotonic(), request.method, request.path))
        status, retry_after = self._refusals.pop(0) if self._refusals else OK
        if status != 200:
            text = json.dumps({"kind": "Status", "reason": "TooManyRequests", "message": "too many requests"})
            return web.Response(status=status, text=text, headers={"Retry-After": retry_after} if retry_after else {})
        if request.path.endswith("/exec"):
            return await self._exec(request)
        if "watch" in request.query:
            return web.Response(text=json.dumps({"type": "ADDED", "object": POD}) + "\n")
        return web.json_response(BODY)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                break
        return socket
