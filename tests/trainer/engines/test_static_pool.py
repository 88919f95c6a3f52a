"""Engines whose weights never change: they come back, and never end what needs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import aiohttp
import pytest
import pytest_asyncio
from swerl_trainer.engines.errors import EngineStartError
from swerl_trainer.engines.static_pool import StaticEnginePool
from swerl_trainer.location import Location

from .test_repair import Routes, Server


@dataclass
class FakeRouter:
    """A router that remembers which engines it knows."""

    engines: list[str] = field(default_factory=list)
    alive: bool = False

    async def start(self) -> None:
        self.alive = True

    async def add(self, engine: str) -> None:
        assert self.alive
        self.engines.append(engine)

    async def remove(self, engine: str) -> None:
        self.engines.remove(engine)

    async def finish_removals(self) -> None: ...

    def stop(self) -> None:
        self.alive = False


@dataclass
class FakeServer:
    """An engine that may die, and may fail to start, or not end its start."""

    name: str
    starts: int = 0
    running: bool = False
    failures: int = 0
    endless: int = 0
    locations: tuple[Location, ...] = ()

    async def start(self, *, reads_model: bool = True) -> str:
        self.starts += 1
        if self.endless:
            self.endless -= 1
            await asyncio.Event().wait()
        if self.failures:
            self.failures -= 1
            raise EngineStartError(f"{self.name} ended")
        self.running = True
        return f"{self.name}.{self.starts}"

    async def alive(self) -> bool:
        return self.running

    async def stop(self) -> None:
        self.running = False


async def watched(pool: StaticEnginePool, until: Callable[[], bool]) -> None:
    watcher = asyncio.create_task(pool.watch())
    async with asyncio.timeout(30):
        while not until():  # noqa: ASYNC110 - what the watcher does is waited for
            await asyncio.sleep(0.01)
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_all_engines_serve_after_the_start(http: aiohttp.ClientSession) -> None:
    router = FakeRouter()
    await StaticEnginePool([FakeServer("a"), FakeServer("b")], router, http, "m").start()  # type: ignore[arg-type]
    assert router.engines == ["a.1", "b.1"]


async def test_engine_that_cannot_start_ends_the_start(http: aiohttp.ClientSession) -> None:
    servers = [FakeServer("a"), FakeServer("b", failures=1)]
    with pytest.raises(EngineStartError, match="b ended"):
        await StaticEnginePool(servers, FakeRouter(), http, "m").start()  # type: ignore[arg-type]


async def test_lost_engine_is_replaced_after_a_failed_replacement(http: aiohttp.ClientSession) -> None:
    router, first, second = FakeRouter(), FakeServer("a"), FakeServer("b")
    pool = StaticEnginePool([first, second], router, http, "m", check_seconds=0.01)  # type: ignore[arg-type]
    await pool.start()
    first.running, first.failures, router.alive = False, 3, False
    await watched(pool, until=lambda: len(router.engines) == 2 and first.running)
    assert sorted(router.engines) == ["a.5", "b.1"]
    await pool.close()
    assert not (first.running or second.running or router.alive)


async def test_engine_whose_start_does_not_end_is_started_again(http: aiohttp.ClientSession) -> None:
    router, server = FakeRouter(), FakeServer("a")
    pool = StaticEnginePool([server], router, http, "m", check_seconds=0.01, start_seconds=0.1)  # type: ignore[arg-type]
    await pool.start()
    server.running, server.endless = False, 1
    await watched(pool, until=lambda: bool(router.engines) and server.running)
    assert router.engines == ["a.3"]


async def test_engines_are_replaced_at_the_same_time(http: aiohttp.ClientSession) -> None:
    router, endless, other = FakeRouter(), FakeServer("a"), FakeServer("b")
    pool = StaticEnginePool([endless, other], router, http, "m", check_seconds=0.01)  # type: ignore[arg-type]
    await pool.start()
    endless.running, endless.endless, other.running = False, 1, False
    await watched(pool, until=lambda: router.engines == ["b.2"])
    assert endless.starts == 2, "its start goes on"


async def test_engine_that_generates_nothing_is_replaced(http: aiohttp.ClientSession) -> None:
    routes, silent, other = Routes(), Server(), Server()
    silent.starting.set()
    limits = {"check_seconds": 0.01, "probe_seconds": 0.3, "probe_pause": 0.05}
    pool = StaticEnginePool([silent, other], routes, http, "m", **limits)  # type: ignore[arg-type]
    await pool.start()
    before = set(routes.engines)
    silent.delay = 60.0
    await watched(pool, until=lambda: silent.starts == 2 and len(routes.engines) == 2)
    assert other.starts == 1 and len(routes.engines & before) == 1
    await pool.close()
