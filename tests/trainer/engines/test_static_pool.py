"""Engines whose weights never change: they come back, and never end what needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from swerl_trainer.engines.errors import EngineStartError
from swerl_trainer.engines.static_pool import StaticEnginePool


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
    """An engine that may die, and may fail to start."""

    name: str
    starts: int = 0
    running: bool = False
    failures: int = 0

    async def start(self) -> str:
        self.starts += 1
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


async def test_all_engines_serve_after_the_start() -> None:
    router = FakeRouter()
    await StaticEnginePool([FakeServer("a"), FakeServer("b")], router, "m").start()  # type: ignore[arg-type]
    assert router.engines == ["a.1", "b.1"]


async def test_engine_that_cannot_start_ends_the_start() -> None:
    with pytest.raises(EngineStartError, match="b ended"):
        await StaticEnginePool([FakeServer("a"), FakeServer("b", failures=1)], FakeRouter(), "m").start()  # type: ignore[arg-type]


async def test_lost_engine_is_replaced_after_a_failed_replacement() -> None:
    router, first, second = FakeRouter(), FakeServer("a"), FakeServer("b")
    pool = StaticEnginePool([first, second], router, "m", check_seconds=0.01)  # type: ignore[arg-type]
    await pool.start()
    first.running, first.failures, router.alive = False, 3, False
    await watched(pool, until=lambda: len(router.engines) == 2 and first.running)
    assert sorted(router.engines) == ["a.5", "b.1"]
    await pool.close()
    assert not (first.running or second.running or router.alive)
