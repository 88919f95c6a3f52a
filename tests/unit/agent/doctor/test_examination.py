"""Checks of `swerl doctor` on an API server that refuses or fails single requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from swerl_agent.doctor import DoctorOptions, Finding, examine
from swerl_kube import Forbidden, ServerError

Json = dict[str, Any]


class Api:
    """An API server that allows nothing but `pods get`, forbids to read, and fails for nodes."""

    def __init__(self) -> None:
        self.lists: Counter[str] = Counter()
        self.has_listed_schemas = False

    async def request(self, method: str, path: str) -> Json:
        return {"gitVersion": "v1.34.0"}

    async def create(self, resource: str, body: Json) -> Json:
        attributes = body["spec"]["resourceAttributes"]
        right = (attributes["resource"], attributes.get("subresource"), attributes["verb"])
        return {"status": {"allowed": right == ("pods", None, "get")}}

    async def get(self, api: str, resource: str, namespace: str | None, name: str) -> Json:
        raise Forbidden(f"GET {resource}", 403, "Forbidden", f"cannot get {resource}")

    async def list(self, api: str, resource: str, namespace: str | None, **_: Any) -> list[Json]:
        self.lists[resource] += 1
        await asyncio.sleep(0.01)
        if resource == "nodes":
            raise ServerError("GET nodes: 503")
        if namespace == "broken":
            raise ZeroDivisionError
        if resource == "flowschemas":
            await asyncio.sleep(0.1)
            self.has_listed_schemas = True
        raise Forbidden(f"GET {resource}", 403, "Forbidden", f"cannot list {resource}")


class EmptyApi(Api):
    """An API server without objects."""

    async def list(self, api: str, resource: str, namespace: str | None, **_: Any) -> list[Json]:
        self.lists[resource] += 1
        await asyncio.sleep(0.01)
        return []


async def examined(api: Api, namespace: str = "ns") -> dict[str, Finding]:
    found = await examine(api, DoctorOptions(namespace, pods=False))  # type: ignore[arg-type]
    return {finding.check: finding for finding in found}


async def test_refused_and_failed_reads_are_unknown() -> None:
    api = Api()
    found = await examined(api)
    assert found["kubernetes"].status == "ok"
    assert (found["crds"].status, found["crds"].message) == ("unknown", "cannot list customresourcedefinitions")
    assert (found["nodes"].status, found["nodes"].message) == ("unknown", "GET nodes: 503")
    assert api.lists["deployments"] == 1


async def test_nodes_are_listed_once_for_all_checks() -> None:
    api = EmptyApi()
    found = await examined(api)
    assert (found["storage"].status, found["gpus"].status) == ("failed", "warning")
    assert (api.lists["nodes"], api.lists["deployments"]) == (1, 1)


async def test_every_lacking_right_is_named() -> None:
    message = (await examined(Api()))["permissions"].message
    for right in ("create sweevals", "get pods/exec", "get pods/log", "patch leases", "delete networkpolicies"):
        assert right in message
    assert "get pods," not in message


async def test_error_is_raised_after_all_checks_have_ended() -> None:
    api = Api()
    with pytest.raises(ZeroDivisionError):
        await examined(api, "broken")
    assert api.has_listed_schemas
