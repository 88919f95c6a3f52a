"""A reusable timeout ends the wait it belongs to, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from swerl_agent.sandbox.timeout import ReusableTimeout

LONG = 60.0  # seconds; never reached


@pytest.fixture
async def timeout() -> AsyncIterator[ReusableTimeout]:
    timeout_ = ReusableTimeout()
    yield timeout_
    timeout_.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_result_in_time_is_returned(timeout: ReusableTimeout) -> None:
    assert await timeout.wait(asyncio.sleep(0.01, "here"), now() + LONG) == "here"


@pytest.mark.parametrize("earlier", [0.0, 0.05, LONG], ids=["passed at once", "shorter", "longer"])
async def test_wait_ends_at_its_own_deadline(timeout: ReusableTimeout, earlier: float) -> None:
    await timeout.wait(asyncio.sleep(0), now() + earlier)
    started = now()
    with pytest.raises(TimeoutError):
        await timeout.wait(asyncio.sleep(LONG), started + 0.1)
    assert now() >= started + 0.1


async def test_later_deadline_replaces_an_earlier_one(timeout: ReusableTimeout) -> None:
    await timeout.wait(asyncio.sleep(0.01), now() + 0.5)
    assert await timeout.wait(asyncio.sleep(0.7, "here"), now() + LONG) == "here"


async def test_timer_without_a_waiter_does_nothing(timeout: ReusableTimeout) -> None:
    await timeout.wait(asyncio.sleep(0), now() + 0.02)
    assert await asyncio.sleep(0.1, "not cancelled") == "not cancelled"


async def test_outside_cancellation_at_the_deadline_stays_a_cancellation(timeout: ReusableTimeout) -> None:
    async def wait() -> None:
        await timeout.wait(asyncio.sleep(LONG), now() + 0.02)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_at(now() + 0.02, waiting.cancel)  # in the same turn of the loop
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert waiting.cancelled()


async def test_task_can_be_cancelled_after_a_timeout(timeout: ReusableTimeout) -> None:
    with pytest.raises(TimeoutError):
        await timeout.wait(asyncio.sleep(LONG), now() - 1)
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_close_cancels_the_timer(timeout: ReusableTimeout) -> None:
    await timeout.wait(asyncio.sleep(0), now() + LONG)
    timer = timeout._timer
    timeout.close()
    assert timer is not None and timer.cancelled()
