"""An operator is killed repeatedly during a burst of groups: no extra Pod, nothing left behind."""

from __future__ import annotations

import asyncio

from tests.chaos.conftest import wait_until_nothing_left
from tests.control_plane.operator_process import Operator
from tests.control_plane.sandboxes.conftest import PodUidRecorder, User, each_once

GROUPS, REPLICAS = 6, 4


async def test_killed_in_a_burst_of_groups(user: User, operator: Operator) -> None:
    pod_uids = await PodUidRecorder(user).start()
    groups = [f"burst-{number}" for number in range(GROUPS)]
    await asyncio.gather(*(user.declare(group, replicas=REPLICAS) for group in groups))
    for created in (1, 7, 15):
        await user.until(lambda: count(user), created.__le__, 60)
        operator.kill()
        operator.start()
        await asyncio.to_thread(operator.until_leading)
    await asyncio.gather(*(user.phase(group, "Ready", 120) for group in groups))
    for group in groups[: GROUPS // 2]:
        await user.delete(group)
    operator.kill()  # it has not seen the end of these, and of the others only the next one sees it
    for group in groups[GROUPS // 2 :]:
        await user.delete(group)
    operator.start()
    await asyncio.to_thread(operator.until_leading)
    await wait_until_nothing_left(user)
    assert await pod_uids.close(groups) == each_once(groups, REPLICAS)


async def count(user: User) -> int:
    return len(await user.api.list("v1", "pods", user.namespace, labels="swerl.dev/sandbox"))
