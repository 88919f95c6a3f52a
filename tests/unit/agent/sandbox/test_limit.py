"""A limit that is moved from wait to wait ends the one it belongs to, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from swerl_agent.sandbox.limit import Limit

LONG = 60.0  # seconds; never reached


@pytest.fixture
async def limit() -> AsyncIterator[Limit]:
    made = Limit()
    yield made
    made.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_what_comes_in_time_is_the_result(limit: Limit) -> None:
    assert await limit.wait(asyncio.sleep(0.01, "here"), now() + LONG) == "here"


@pytest.mark.parametrize("earlier", [0.0, 0.05, LONG], ids=["passed at once", "shorter", "longer"])
async def test_a_wait_ends_at_its_own_limit_whatever_the_one_before_it_was(limit: Limit, earlier: float) -> None:
    await limit.wait(asyncio.sleep(0), now() + earlier)
    began = now()
    with pytest.raises(TimeoutError):
        await limit.wait(asyncio.sleep(LONG), began + 0.1)
    assert now() >= began + 0.1


async def test_a_limit_that_was_moved_on_is_not_reached_at_the_earlier_time(limit: Limit) -> None:
    await limit.wait(asyncio.sleep(0.01), now() + 0.05)
    assert await limit.wait(asyncio.sleep(0.15, "here"), now() + LONG) == "here"


async def test_nothing_rings_for_one_who_no_longer_waits(limit: Limit) -> None:
    await limit.wait(asyncio.sleep(0), now() + 0.02)
    assert await asyncio.sleep(0.1, "not cancelled") == "not cancelled"


async def test_a_cancellation_from_outside_stays_one_also_at_the_limit(limit: Limit) -> None:
    async def wait() -> None:
        await limit.wait(asyncio.sleep(LONG), now() + 0.02)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_at(now() + 0.02, waiting.cancel)  # in the same turn of the loop
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert waiting.cancelled()


async def test_one_whose_limit_was_reached_can_be_cancelled_later(limit: Limit) -> None:
    with pytest.raises(TimeoutError):
        await limit.wait(asyncio.sleep(LONG), now() - 1)
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_closed_it_leaves_no_timer(limit: Limit) -> None:
    await limit.wait(asyncio.sleep(0), now() + LONG)
    timer = limit._timer
    limit.close()
    assert timer is not None and timer.cancelled()
