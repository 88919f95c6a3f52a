"""Declaring and removing groups over an API server that is away, or loses its answers."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from swerl_agent.sandbox.declaration import declare, remove
from swerl_kube import ApiError, Conflict, KubeError, ServerError, Throttled, Unreachable, WriteRetry

Json = dict[str, Any]
BODY = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"image": "i"}}
TRANSIENT_ERRORS: list[KubeError] = [Unreachable("refused"), Throttled("429 TooMany"), ServerError("503 Unavailable")]


class Server:
    """Keeps SweSandboxes; `away` is raised instead of an answer, `lost` after the work is done."""

    def __init__(self, *, refusals: list[KubeError] | None = None, lost_replies: list[KubeError] | None = None) -> None:
        self.refusals, self.lost_replies = list(refusals or ()), list(lost_replies or ())
        self.kept: dict[str, Json] = {}
        self.created = 0
        self.pause = 0.0

    async def create(self, resource: str, body: Json, *, namespace: str) -> Json:
        await self._begin()
        name = body["metadata"]["name"]
        if name in self.kept:
            raise Conflict("POST", 409, "AlreadyExists", name)
        self.created += 1
        self.kept[name] = deepcopy(body) | {"metadata": body["metadata"] | {"uid": f"uid-{self.created}"}}
        self._end()
        return self.kept[name]

    async def get(self, api: str, resource: str, namespace: str, name: str) -> Json:
        return self.kept[name]

    async def delete(self, api: str, resource: str, namespace: str, name: str, **options: Any) -> bool:
        await self._begin()
        if name not in self.kept:
            return False
        if options.get("uid") not in (None, self.kept[name]["metadata"]["uid"]):
            raise Conflict("DELETE", 409, "Conflict", "the UID in the precondition does not match")
        del self.kept[name]
        self._end()
        return True

    async def _begin(self) -> None:
        await asyncio.sleep(self.pause)
        if self.refusals:
            raise self.refusals.pop(0)

    def _end(self) -> None:
        if self.lost_replies:
            raise self.lost_replies.pop(0)


QUICK = WriteRetry(first_pause=0.001)


async def declared(server: Server, retry: WriteRetry = QUICK) -> Json:
    return await declare(server, "ns", BODY, retry)  # type: ignore[arg-type]


async def removed(server: Server, **options: Any) -> None:
    await remove(server, "v1", "swesandboxes", "ns", "g", retry=QUICK, **options)  # type: ignore[arg-type]


async def test_declaration_is_retried_until_the_server_is_back() -> None:
    server = Server(refusals=TRANSIENT_ERRORS)
    assert (await declared(server))["metadata"]["uid"] == "uid-1" and server.created == 1


async def test_lost_response_does_not_duplicate_a_declaration() -> None:
    server = Server(lost_replies=[ServerError("504 Timeout")])
    assert (await declared(server))["metadata"]["uid"] == "uid-1" and server.created == 1


@pytest.mark.parametrize("refusals", [[], [Unreachable("reset")]], ids=["at once", "after a try"])
async def test_other_group_of_the_same_name_is_a_conflict(refusals: list[KubeError]) -> None:
    server = Server(refusals=refusals)
    server.kept["g"] = BODY | {"metadata": {"name": "g", "uid": "other"}}
    with pytest.raises(Conflict):
        await declared(server)


async def test_retries_end_after_their_window() -> None:
    with pytest.raises(Unreachable):
        await declared(Server(refusals=[Unreachable("refused")] * 1000), WriteRetry(window=0.05, first_pause=0.001))


async def test_refused_declaration_is_not_retried() -> None:
    server = Server(refusals=[ApiError("POST", 403, "Forbidden", "no")])
    with pytest.raises(ApiError, match="no"):
        await declared(server)
    assert server.created == 0


async def test_cancelled_declaration_leaves_no_group() -> None:
    server = Server()
    server.pause = 0.05
    declaring = asyncio.create_task(declared(server))
    await asyncio.sleep(0.01)
    declaring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await declaring
    assert server.created == 1 and not server.kept


async def test_removal_is_retried_until_done() -> None:
    server = Server()
    await declared(server)
    server.refusals, server.lost_replies = list(TRANSIENT_ERRORS), [Unreachable("reset")]
    await removed(server, uid="uid-1")
    assert not server.kept and not server.lost_replies
    await removed(server)  # gone already


async def test_removal_keeps_a_new_group_of_the_same_name() -> None:
    server = Server()
    await declared(server)
    await removed(server, uid="of-an-earlier-one")
    assert "g" in server.kept
