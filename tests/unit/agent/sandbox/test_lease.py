"""A Lease that owns things, before an API server that the test has fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from swerl_agent.sandbox.lease import MARGIN, LeaseKeeper, LeaseLost

from tests.kubeconfig import write_kubeconfig


class Api:
    """Knows one Lease."""

    def __init__(self) -> None:
        self.there, self.failing, self.made = False, 0, 0
        self.kubeconfig = ""

    async def answer(self, request: web.Request) -> web.Response:
        if self.failing:
            return web.json_response({"kind": "Status", "message": "not now"}, status=self.failing)
        if request.method == "POST":
            self.there, self.made = True, self.made + 1
        elif not self.there:
            return web.json_response({"kind": "Status", "reason": "NotFound", "message": "none"}, status=404)
        return web.json_response({"metadata": {"resourceVersion": "1", "uid": f"u{self.made}"}})


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


async def held(api: Api, *, anchor: bool, lasts: float = 40) -> LeaseKeeper:
    keeper = LeaseKeeper(
        "n", "l", holder="h", kubeconfig=api.kubeconfig, interval=0.1, duration=round(lasts), anchor=anchor
    )
    keeper.start()
    await asyncio.to_thread(keeper.wait_held, 10)
    return keeper


async def test_one_that_owns_things_is_not_made_anew(api: Api) -> None:
    keeper = await held(api, anchor=True)
    assert (keeper.reference["uid"], keeper.labels) == ("u1", {"swerl.dev/lease": "u1"})
    api.there = False
    with pytest.raises(LeaseLost, match="n/l was lost: it was deleted"):
        await asyncio.wait_for(asyncio.wrap_future(keeper.lost), 10)
    with pytest.raises(LeaseLost):
        await keeper.wait_until_safe()
    assert api.made == 1


async def test_one_that_owns_nothing_is(api: Api) -> None:
    keeper = await held(api, anchor=False)
    api.there = False
    await asyncio.sleep(1)
    assert api.made == 2 and not keeper.lost.done()
    await asyncio.to_thread(keeper.stop)


async def test_nothing_is_made_while_it_may_run_out(api: Api) -> None:
    keeper = await held(api, anchor=True, lasts=MARGIN + 1)
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


async def test_a_right_that_is_missing_is_an_error_at_once(api: Api) -> None:
    api.failing, started = 403, time.monotonic()
    with pytest.raises(LeaseLost, match=r"n/l cannot be made: 403.*; let this account create, patch and delete leases"):
        await held(api, anchor=True)
    assert time.monotonic() - started < 5
