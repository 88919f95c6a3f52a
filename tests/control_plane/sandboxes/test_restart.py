"""The operator is killed during its work: the next one continues, and no sandbox is created twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.control_plane.sandboxes.conftest import each_once

Body = dict[str, Any]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_restarted_operator_completes_groups_without_repetition(
    number: signal.Signals,
    user: Any,
    operator: Any,
    reading: Callable[[Body, str], tuple[str, str, str]],
    pod_uids: Any,
) -> None:
    groups = [f"{number.name.lower()}-{i}" for i in range(3)]
    for name in groups:
        await user.declare(name, replicas=4, job=number.name.lower(), maxConcurrent=8)
    await user.until(lambda: user.pods(groups[0]), bool, 30)
    await asyncio.to_thread(operator.kill, number)
    created = await user.until(lambda: user.pods(groups[0]), bool, 5)
    assert len(created) <= 4
    operator.start()
    await asyncio.to_thread(operator.until_leading)
    for name in groups[:2]:
        await user.phase(name, "Ready")
    assert not await user.pods(groups[2])

    await user.release(f"swesb-{groups[0]}-3")
    await asyncio.to_thread(operator.kill, number)
    await user.release(f"swesb-{groups[0]}-0")  # while no operator runs
    operator.start()
    await asyncio.to_thread(operator.until_leading)
    await asyncio.sleep(3)
    assert sorted(await user.pods(groups[0])) == [f"swesb-{groups[0]}-{i}" for i in (1, 2)]

    for ordinal in (1, 2):
        await user.release(f"swesb-{groups[0]}-{ordinal}")
    await user.phase(groups[2], "Ready")
    status = await user.phase(groups[0], "Finished", 30)
    assert reading(status, "Finished")[1] == "Completed"
    assert await pod_uids.close(groups) == each_once(groups, 4)
    for name in groups:
        await user.delete(name)
