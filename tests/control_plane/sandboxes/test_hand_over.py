"""Two operators: the standby takes over at once when the leader gets a signal, and creates nothing twice.

The time without a leader is read from the versions of the Lease: from the release, or the last renewal, of the one to
the first write of the other. Delays of the test process do not count.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from swerl_kube import resource_path
from swerl_operator.leader import API, LeaderElectionConfig

from tests.control_plane.operator_process import Operator
from tests.control_plane.sandboxes.conftest import each_once, versions

Spec = dict[str, Any]
LEASE = "swe-rl-operator"
ENDED_SECONDS = 10.0  # for a stopping leader to write its state and to release the Lease
HAND_OVER_SECONDS = 2.0  # from then on: the other looks twice a second
DURATION_SECONDS = LeaderElectionConfig().lease_duration
EXPIRED_SECONDS = DURATION_SECONDS + 10.0  # the Lease of one that is killed has to run out, by the other's clock
CASES = [
    (signal.SIGTERM, (0.0, HAND_OVER_SECONDS)),
    (signal.SIGKILL, (DURATION_SECONDS, EXPIRED_SECONDS)),
]


@asynccontextmanager
async def lease_of(user: Any) -> AsyncIterator[list[Spec]]:
    """Every version of the leaders' Lease, the present one and those to come."""
    leases = resource_path(API, "leases", user.namespace)
    listed = await user.api.request("GET", leases)
    found: list[Spec] = [lease["spec"] for lease in listed["items"] if lease["metadata"]["name"] == LEASE]

    async def follow() -> None:
        async for lease in versions(user.api, leases, int(listed["metadata"]["resourceVersion"])):
            if lease["metadata"]["name"] == LEASE:
                found.append(lease["spec"])

    following = asyncio.create_task(follow())
    try:
        yield found
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def holder(lease: list[Spec]) -> str | None:
    """Who holds the Lease by its last version."""
    return lease[-1]["holderIdentity"] if lease else None


def lease_times(lease: list[Spec], leader: str, follower: str) -> tuple[datetime, datetime]:
    """The last word of `leader` and the first of `follower`, who alone follows."""
    holders = [spec["holderIdentity"] for spec in lease]
    first = holders.index(follower)
    assert set(holders[:first]) <= {leader, ""} and set(holders[first:]) == {follower}, holders
    return datetime.fromisoformat(lease[first - 1]["renewTime"]), datetime.fromisoformat(lease[first]["acquireTime"])


@pytest.mark.parametrize(("number", "bounds"), CASES, ids=["stopped", "killed"])
async def test_standby_takes_over_in_the_middle_of_a_burst(
    number: signal.Signals,
    bounds: tuple[float, float],
    user: Any,
    operator: Operator,
    kubeconfig: str,
    namespace: str,
    tmp_path: Path,
    pod_uids: Any,
) -> None:
    options = {"namespaces": namespace, "lease_namespace": namespace}
    with (
        _restarted(operator),
        Operator(kubeconfig, tmp_path / "standby", identity="standby", **options) as standby,
    ):
        groups = [f"{number.name.lower()}-{i}" for i in range(4)]
        await asyncio.to_thread(standby.until_standing_by)
        for name in groups:
            await user.declare(name, replicas=4, job=number.name.lower())
        await user.until(lambda: user.pods(groups[0]), bool, 30)
        assert standby.metric('swerl_sandbox_api_writes_total{verb="create_pod"}') == 0
        async with lease_of(user) as lease:
            stopped_at = datetime.now(UTC)
            await asyncio.to_thread(operator.kill, number)
            await user.until(lambda: holder(lease), lambda name: name == "standby", 60)
        released, acquired = lease_times(lease, "test", "standby")
        assert (released - stopped_at).total_seconds() <= ENDED_SECONDS, lease
        assert bounds[0] <= (acquired - released).total_seconds() <= bounds[1], lease
        for name in groups:
            await user.phase(name, "Ready")
        assert await pod_uids.close(groups) == each_once(groups, 4)
        for name in groups:
            await user.delete(name)


@contextmanager
def _restarted(operator: Operator) -> Iterator[None]:
    """The module's operator leads afterwards, whatever happened."""
    try:
        yield
    finally:
        if not operator.alive:
            operator.start()
        operator.until_leading()
