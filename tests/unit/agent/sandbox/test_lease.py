"""A Lease that owns things, before an API server that the test has fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from swerl_agent.sandbox.lease import SAFETY_MARGIN, LeaseKeeper, LeaseLost

from tests.kubeconfig import write_kubeconfig


class Api:
    """Knows one Lease."""

    def __init__(self) -> None:
        self.exists, self.failing, self.created = False, 0, 0
        self.kubeconfig = ""

    async def answer(self, request: web.Request) -> web.Response:
        if self.failing:
            return web.json_response({"kind": "Status", "message": "not now"}, status=self.failing)
        if request.method == "POST":
            self.exists, self.created = True, self.created + 1
        elif not self.exists:
            return web.json_response({"kind": "Status", "reason": "NotFound", "message": "none"}, status=404)
        return web.json_response({"metadata": {"resourceVersion": "1", "uid": f"u{self.created}"}})


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    api, app = Api(), web.Application()
    app.router.add_route("*", "/{rest:.*}", api.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield api
    await runner.cleanup()


async def held_lease(api: Api, *, owns_objects: bool, duration: float = 40) -> LeaseKeeper:
    keeper = LeaseKeeper(
        "n",
        "l",
        holder="h",
        kubeconfig=api.kubeconfig,
        interval=0.1,
        duration=round(duration),
        owns_objects=owns_objects,
    )
    keeper.start()
    await asyncio.to_thread(keeper.wait_held, 10)
    return keeper


async def test_lease_with_dependents_is_not_recreated(api: Api) -> None:
    keeper = await held_lease(api, owns_objects=True)
    assert (keeper.reference["uid"], keeper.labels) == ("u1", {"swerl.dev/lease": "u1"})
    api.exists = False
    with pytest.raises(LeaseLost, match="n/l was lost: it was deleted"):
        await asyncio.wait_for(asyncio.wrap_future(keeper.lost), 10)
    with pytest.raises(LeaseLost):
        await keeper.wait_until_safe()
    assert api.created == 1


async def test_lease_without_dependents_is_recreated(api: Api) -> None:
    keeper = await held_lease(api, owns_objects=False)
    api.exists = False
    await asyncio.sleep(1)
    assert api.created == 2 and not keeper.lost.done()
    await asyncio.to_thread(keeper.stop)


async def test_wait_until_safe_blocks_while_the_lease_may_expire(api: Api) -> None:
    keeper = await held_lease(api, owns_objects=True, duration=SAFETY_MARGIN + 1)
    await asyncio.wait_for(keeper.wait_until_safe(), 1)
    api.failing = 500
    await asyncio.sleep(1.2)
    waiting = asyncio.create_task(keeper.wait_until_safe())
    await asyncio.sleep(0.5)
    assert not waiting.done(), "it was renewed more than a second ago"
    api.failing = 0
    await asyncio.wait_for(waiting, 10)
    assert not keeper.lost.done()
    await asyncio.to_thread(keeper.stop)


async def test_missing_permission_raises_at_once(api: Api) -> None:
    api.failing, started = 403, time.monotonic()
    message = r"n/l cannot be created: .*403.*; let this account create, patch and delete leases"
    with pytest.raises(LeaseLost, match=message):
        await held_lease(api, owns_objects=True)
    assert time.monotonic() - started < 5
