"""How many groups run at once follows from how full the engines' KV caches are."""

from __future__ import annotations

import asyncio

import pytest
from swerl_trainer.rollout.concurrency import AdaptiveConcurrency, adapted_limit

from .dispatching import dispatcher, mixed, started


@pytest.mark.parametrize(
    ("limit", "usage", "running", "expected"),
    [
        (None, 0.5, 8, None),
        (None, 0.94, 8, None),
        (None, 0.96, 8, 7),
        (7, 0.96, 8, 7),  # the last reduction has no effect yet
        (7, 0.96, 7, 6),
        (7, 0.96, 4, 3),
        (1, 1.0, 1, 1),
        (6, 0.8, 6, 6),
        (6, 0.5, 6, 7),
        (6, 0.5, 5, 6),  # the limit is not what holds groups back
        (6, 1.0, 0, 6),  # an evaluation fills the cache
        (None, 1.0, 0, None),
    ],
)
def test_limit_follows_from_usage(limit: int | None, usage: float, running: int, expected: int | None) -> None:
    assert adapted_limit(limit, usage=usage, running=running) == expected


def test_groups_above_the_limit_wait_and_those_that_run_go_on() -> None:
    d = dispatcher(max_staleness=1)
    assert started(d.actions()) == ["g0", "g1", "g2", "g3"]
    d.running_limit = 2
    mixed(d, ["g0", "g1"])
    assert d.take() is not None and (d.updated(1), d.running()) == (None, 2)
    assert started(d.actions()) == []
    mixed(d, ["g2"])
    assert started(d.actions()) == ["g4"]
    d.running_limit = 3
    assert started(d.actions()) == ["g5"]


def test_limit_is_reported_with_the_step() -> None:
    d = dispatcher()
    d.actions()
    d.running_limit = 1
    mixed(d, ["g0", "g1"])
    step = d.take()
    assert step is not None and step.limit == 1


async def test_full_cache_trims_groups_until_there_is_room() -> None:
    usages: list[float | None] = [0.5, None, 0.99, 0.99, 0.8, 0.3, 0.3]
    limits: list[int | None] = []
    running = 4
    done = asyncio.Event()

    async def usage() -> float | None:
        if not usages:
            done.set()
            await asyncio.Event().wait()
        return usages.pop(0)

    def take(limit: int | None) -> None:
        nonlocal running
        limits.append(limit)
        running = limit or running

    watching = asyncio.create_task(AdaptiveConcurrency(usage, lambda: running, take, period=0.0).watch())
    await asyncio.wait_for(done.wait(), 10)
    watching.cancel()
    assert limits == [3, 2, 3, 4]
