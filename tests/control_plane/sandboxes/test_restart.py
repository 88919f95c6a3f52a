"""The operator dies in the middle of its work: the next one goes on, and no sandbox is made twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

Body = dict[str, Any]


class Census:
    """Watches Pods in the background: every UID that any sandbox name ever had."""

    def __init__(self, user: Any, groups: list[str]) -> None:
        self.user, self.groups = user, groups
        self.seen: dict[str, set[str]] = {}
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            for group in self.groups:
                for name, pod in (await self.user.pods(group)).items():
                    self.seen.setdefault(name, set()).add(pod["metadata"]["uid"])
            await asyncio.sleep(0.2)

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_a_successor_finishes_the_work_and_repeats_none(
    number: signal.Signals, user: Any, operator: Any, reading: Callable[[Body, str], tuple[str, str, str]]
) -> None:
    groups = [f"{number.name.lower()}-{i}" for i in range(3)]
    census = Census(user, groups)
    for name in groups:
        await user.declare(name, replicas=4, job=number.name.lower(), maxConcurrent=8)
    await user.until(lambda: user.pods(groups[0]), bool, 30)
    operator.kill(number)
    created = await user.until(lambda: user.pods(groups[0]), bool, 5)
    assert len(created) <= 4
    operator.start()
    operator.until_leading()
    for name in groups[:2]:
        await user.phase(name, "Ready")
    assert not await user.pods(groups[2])

    await user.release(f"swesb-{groups[0]}-3")
    operator.kill(number)
    await user.release(f"swesb-{groups[0]}-0")  # while nobody looks
    operator.start()
    operator.until_leading()
    await asyncio.sleep(3)
    assert sorted(await user.pods(groups[0])) == [f"swesb-{groups[0]}-{i}" for i in (1, 2)]

    for ordinal in (1, 2):
        await user.release(f"swesb-{groups[0]}-{ordinal}")
    await user.phase(groups[2], "Ready")
    status = await user.phase(groups[0], "Finished", 30)
    assert reading(status, "Finished")[1] == "Completed"
    await census.close()
    assert {name: len(uids) for name, uids in census.seen.items() if len(uids) > 1} == {}
    for name in groups:
        await user.delete(name)
