"""What killed programs left goes in an order, and nothing of one that lives."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_kube import Conflict
from swerl_operator.orphan_gc import OrphanGC
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.times import format_time

WALL = 1_000_000.0
DURATION = 40


class Cluster:
    """Leases and Pods; what was asked to be deleted, in order."""

    def __init__(self) -> None:
        self.renewed = WALL
        self.leases, self.pods = ["program"], ["grading"]
        self.deleted: list[str] = []
        self.renewed_meanwhile = False  # the Lease is renewed between our look and our deletion

    async def list(self, api: str, resource: str, namespace: str | None, *, labels: str) -> list[dict[str, Any]]:
        if resource == "pods":
            assert labels == "swerl.dev/lease=u1"
            return [{"metadata": {"name": name}} for name in self.pods]
        assert labels == "swerl.dev/role=client"
        spec = {"holderIdentity": "a@b/1", "renewTime": format_time(self.renewed), "leaseDurationSeconds": DURATION}
        meta = {"namespace": "ns", "uid": "u1", "resourceVersion": "7"}
        return [{"metadata": meta | {"name": name}, "spec": spec} for name in self.leases]

    async def delete_all(self, api: str, resource: str, namespace: str, *, labels: str) -> None:
        assert labels == "swerl.dev/lease=u1"
        self.deleted.append(resource)

    async def delete(self, api: str, resource: str, namespace: str, name: str, *, uid: str, version: str) -> bool:
        assert (uid, version) == ("u1", "7")
        if self.renewed_meanwhile:
            raise Conflict("DELETE", 409, "Conflict", name)
        self.deleted.append(f"{resource}/{name}")
        self.leases.remove(name)
        return True


class FakeClock:
    now = 0.0

    def clock(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL + self.now


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def gc(cluster: Cluster, time: FakeClock) -> OrphanGC:
    return OrphanGC(cluster, (), SandboxSettings(), time.clock, time.wall)  # type: ignore[arg-type]


async def pass_time(gc: OrphanGC, time: FakeClock, seconds: float) -> bool:
    """Sweep every five seconds; what the last one said."""
    ending = False
    until = time.now + seconds
    while time.now < until:
        time.now += 5
        ending = await gc.sweep()
    return ending


async def test_gradings_are_deleted_before_the_lease_that_owns_their_policy(
    gc: OrphanGC, cluster: Cluster, time: FakeClock
) -> None:
    assert not await pass_time(gc, time, DURATION)
    assert cluster.deleted == []
    assert await pass_time(gc, time, 10), "a Pod still runs"
    assert set(cluster.deleted) == {"jobs"}
    cluster.pods.clear()
    assert not await pass_time(gc, time, 5)
    assert cluster.deleted[-1] == "leases/program"


async def test_renewed_lease_is_kept(gc: OrphanGC, cluster: Cluster, time: FakeClock) -> None:
    for _ in range(30):
        cluster.renewed = time.wall()
        await pass_time(gc, time, 10)
    assert cluster.deleted == []


async def test_renewal_during_the_deletion_keeps_the_lease(gc: OrphanGC, cluster: Cluster, time: FakeClock) -> None:
    cluster.pods.clear()
    cluster.renewed_meanwhile = True
    assert not await pass_time(gc, time, DURATION + 10)
    assert cluster.leases == ["program"]
    cluster.renewed, before = time.wall(), len(cluster.deleted)
    await pass_time(gc, time, 20)
    assert len(cluster.deleted) == before
