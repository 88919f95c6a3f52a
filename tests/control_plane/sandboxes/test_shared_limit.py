"""Jobs share one limit: it is never exceeded, and the job with the fewest sandboxes goes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Body = dict[str, Any]


@pytest.fixture(scope="module")
def operator_options() -> dict[str, str]:
    return {"sandbox_limit": "4"}


async def test_jobs_take_turns(user: Any, reading: Callable[[Body, str], tuple[str, str, str]]) -> None:
    for name in ("first", "second", "third"):
        await user.declare(name, job="large", replicas=2)
    await user.phase("first", "Ready")
    await user.phase("second", "Ready")
    waiting = reading(await user.phase("third", "Pending", 30), "Admitted")
    assert waiting[:2] == ("False", "WaitingForCapacity") and "jobs take turns" in waiting[2]
    await user.declare("late", job="small", replicas=2)
    await user.phase("late", "Pending", 30)
    assert not await user.pods("third") and not await user.pods("late")
    await user.delete("first")
    await user.phase("late", "Ready")
    assert not await user.pods("third"), "the job that had none goes before the one that has two"
    await user.delete("second")
    await user.phase("third", "Ready")
