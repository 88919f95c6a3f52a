"""Servers that listen at `::` are reached by both families; the others only where they were asked to listen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from swerl_agent.listening import listening_site
from swerl_api.addresses import url_host

LOOPBACKS = ("127.0.0.1", "::1")


@pytest.fixture
async def runner() -> AsyncIterator[web.AppRunner]:
    """A server that answers every request with 404."""
    running = web.AppRunner(web.Application(), access_log=None)
    await running.setup()
    yield running
    await running.cleanup()


async def is_reached(host: str, port: int) -> bool:
    async with aiohttp.ClientSession() as http:
        try:
            async with http.get(f"http://{url_host(host)}:{port}/") as answer:
                return answer.status == 404
        except aiohttp.ClientConnectorError:
            return False


@pytest.mark.parametrize(("host", "reached_at"), [("::", {*LOOPBACKS}), ("127.0.0.1", {"127.0.0.1"}), ("::1", {"::1"})])
async def test_host_decides_who_reaches_the_port(runner: web.AppRunner, host: str, reached_at: set[str]) -> None:
    await listening_site(runner, host, 0).start()
    port = runner.addresses[0][1]
    assert {loopback for loopback in LOOPBACKS if await is_reached(loopback, port)} == reached_at


async def test_taken_port_is_an_error(runner: web.AppRunner) -> None:
    await listening_site(runner, "::", 0).start()
    with pytest.raises(OSError, match="in use"):
        await listening_site(runner, "::", runner.addresses[0][1]).start()
