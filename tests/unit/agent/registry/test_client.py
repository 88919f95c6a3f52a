"""Refusals and rate limits of a registry, and the state of images that it says nothing about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from swerl_agent.registry import (
    Availability,
    RegistryClient,
    RegistryCredentials,
    RegistryLimits,
    check_images,
)
from swerl_agent.registry.rate_limit import RateLimiter

from tests.ports import free_port

Answer = Callable[[web.Request], Awaitable[web.Response]]
TOKEN = "Bearer let-me-in"


class FakeRegistry:
    """A registry whose answers a test chooses; counts requests."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[tuple[float, str, str]] = []
        self._answer = answer

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((time.monotonic(), request.method, request.path))
        return await self._answer(request)


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[tuple[FakeRegistry, str]]:
    registry, application = FakeRegistry(answer), web.Application()
    application.router.add_route("*", "/{path:.*}", registry.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield registry, f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def states(
    images: list[str], limits: RegistryLimits | None = None, logins: dict[str, RegistryCredentials] | None = None
) -> list[Availability]:
    async with aiohttp.ClientSession() as http:
        client = RegistryClient(http, logins or {}, limits or RegistryLimits())
        return await check_images(client, images, concurrency=4, report=lambda found: None)


async def test_pause_that_the_registry_asks_for_holds_for_all_requests() -> None:
    refused: list[float] = []

    async def answer(request: web.Request) -> web.Response:
        if not refused:
            refused.append(time.monotonic())
            return web.Response(status=429, headers={"Retry-After": "1"})
        return web.Response(status=200 if request.path.endswith("/here") else 404)

    async with served(answer) as (registry, host):
        found = await states([f"{host}/x:here", *(f"{host}/x:gone-{n}" for n in range(8))])
    assert [state.state for state in found] == ["present"] + ["missing"] * 8
    retries = [when - refused[0] for when, _, _ in registry.requests]
    assert not [when for when in retries if 0.2 < when < 0.95], "requests in flight aside, none came before a second"
    assert {method for _, method, _ in registry.requests} == {"HEAD"}


async def test_pulls_that_a_registry_still_allows_are_known() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(headers={"RateLimit-Remaining": "76;w=21600"})

    async with served(answer) as (_, host), aiohttp.ClientSession() as http:
        client = RegistryClient(http, {}, RegistryLimits())
        await check_images(client, [f"{host}/x:1"], concurrency=1, report=lambda found: None)
    assert client.remaining == {host: 76}


@pytest.mark.parametrize("challenge", ['Bearer realm="http://{host}/token",service="r"', 'Basic realm="r"'])
async def test_login_is_sent_where_it_is_requested(challenge: str) -> None:
    login = RegistryCredentials("me", "secret")

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/token":
            assert request.query["scope"] == "repository:x/y:pull" and request.query["service"] == "r"
            assert request.headers["Authorization"] == login.header
            return web.json_response({"access_token": "let-me-in"})
        expected = TOKEN if challenge.startswith("Bearer") else login.header
        if request.headers.get("Authorization") == expected:
            return web.Response()
        return web.Response(status=401, headers={"WWW-Authenticate": challenge.format(host=request.host)})

    async with served(answer) as (registry, host):
        assert [state.state for state in await states([f"{host}/x/y:1"] * 1, logins={host: login})] == ["present"]
        request_count = len(registry.requests)
        assert [state.state for state in await states([f"{host}/x/y:1"])] == (
            ["denied"] if challenge.startswith("Basic") else ["undecided"]
        )
    assert request_count == (3 if challenge.startswith("Bearer") else 2)


async def test_images_of_a_registry_that_fails_are_undecided_and_never_missing() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=418 if "odd" in request.path else 503, headers={"Retry-After": "0"})

    closed_port = f"127.0.0.1:{free_port()}"
    async with served(answer) as (registry, host):
        found = await states([f"{host}/x:1", f"{host}/x:odd", f"{closed_port}/x:1", "x/Y"], RegistryLimits(retries=1))
    assert [state.state for state in found] == ["undecided", "undecided", "undecided", "missing"]
    details = [state.detail for state in found]
    assert details[0] == f"{host} answered 503 to every request" and "answered 418" in details[1]
    assert f"{closed_port} cannot be reached" in details[2] and "repository 'x/Y' is malformed" in details[3]
    assert len(registry.requests) == 3


async def test_no_minute_has_more_requests_than_allowed() -> None:
    limiter, sent = RateLimiter(3, period=0.5), list[float]()

    async def send() -> None:
        await limiter.acquire()
        sent.append(time.monotonic())

    await asyncio.gather(*(send() for _ in range(8)))
    assert all(later - earlier >= 0.49 for earlier, later in zip(sent, sent[3:], strict=False))
