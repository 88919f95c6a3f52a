"""Ten thousand sandboxes on nodes that exist only in the API, kept by one real operator process on this machine.

Five rounds: groups of four of several jobs are declared at once, become Ready, are released as drivers do it (each Pod,
then the group). Then a small round in which the leading operator is stopped while it creates Pods. Meanwhile another
user's requests are timed. QUICK=1 takes a thousand.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from swerl_api.names import JOB_LABEL, SANDBOX_LABEL, sandbox_pod_name
from swerl_kube import KubeClient
from swerl_operator.workqueue import gather_bounded

from cluster.layout import swerl_home
from demo.cluster import ROOT, DemoCluster
from tests.bench import api_writes
from tests.bench.figures import QUICK, Figure, conclude
from tests.bench.kwok import PLACEMENT, fake_nodes
from tests.bench.prober import probed_pod
from tests.control_plane.operator_process import Operator

SANDBOXES = int(os.environ.get("SANDBOXES") or (1_000 if QUICK else 10_000))
ROUNDS = int(os.environ.get("ROUNDS") or 5)
REPLICAS, JOBS = 4, 10
NODES = 50
REQUESTS = 16  # of the drivers under way at once
READY_SECONDS, RSS_MB, RSS_DRIFT, OTHERS_SECONDS, WRITES, HAND_OVER_SECONDS = 600.0, 500.0, 0.05, 1.0, 3.0, 2.0
KB_A_SANDBOX = 50.0  # 500 MB for 10,000
PATIENCE = 3600.0  # seconds until a round counts as stuck
API, GROUPS = "swerl.dev/v1alpha1", "swesandboxes"
LEASE, FIRST, SECOND = "swe-rl-operator", "first", "second"  # of the operators


@dataclass
class Round:
    """What one round of create and delete came to."""

    ready_seconds: float = 0.0
    gone_seconds: float = 0.0
    rss_mb: float = 0.0  # of the operator, with all sandboxes Ready
    grown_kb: float = 0.0  # of it since the round began, for each sandbox
    writes: api_writes.Writes = field(default_factory=api_writes.Writes)


@dataclass(frozen=True)
class HandOver:
    """From one leader to the next; seconds since the first received its signal."""

    taken: float  # until the Lease names the other
    ready: float  # until all groups that were under way are Ready
    duplicates: int  # Pods that were made though there had been one of that name


class PodUidRecorder:
    """Every Pod there ever was, by name."""

    def __init__(self) -> None:
        self._uids: dict[str, set[str]] = {}

    async def follow(self, client: KubeClient, namespace: str) -> None:
        """Count until cancelled."""
        async for event in client.watch("v1", "pods", namespace, labels=SANDBOX_LABEL):
            meta = event.object["metadata"]
            self._uids.setdefault(meta["name"], set()).add(meta["uid"])

    @property
    def duplicates(self) -> int:
        return sum(len(uids) - 1 for uids in self._uids.values())


class Drivers:
    """What the drivers of the jobs do, and see."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self.namespace = client, namespace
        self.phases: dict[str, str] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Follow the phases of all groups meanwhile."""
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self) -> None:
        async for event in self._client.watch(API, GROUPS, self.namespace):
            name = event.object["metadata"]["name"]
            if event.type == "DELETED":
                self.phases.pop(name, None)
            else:
                self.phases[name] = (event.object.get("status") or {}).get("phase", "")
            self._changed.set()

    async def until(self, done: Callable[[dict[str, str]], bool]) -> None:
        """Wait until `done` accepts the phases."""
        async with asyncio.timeout(PATIENCE):
            while not done(self.phases):
                self._changed.clear()
                await self._changed.wait()

    async def declare(self, names: Iterable[str]) -> None:
        """One group each, of the jobs in turn."""
        await gather_bounded((self._declare(name, f"job-{index % JOBS}") for index, name in enumerate(names)), REQUESTS)

    async def release(self, names: Iterable[str]) -> None:
        """Delete every Pod of the groups, then the groups."""
        await gather_bounded((self._release(name) for name in names), REQUESTS)

    async def _declare(self, name: str, job: str) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": {JOB_LABEL: job}}
        # A node that exists in the API alone runs nothing, so that no Pod of it could prove its isolation.
        spec = {"image": "sandbox:1", "replicas": REPLICAS, "egress": "allow", **PLACEMENT}
        body = {"apiVersion": API, "kind": "SweSandbox", "metadata": metadata, "spec": spec}
        await self._client.create(GROUPS, body, namespace=self.namespace)

    async def _release(self, name: str) -> None:
        for ordinal in range(REPLICAS):
            pod = sandbox_pod_name(name, ordinal)
            await self._client.delete("v1", "pods", self.namespace, pod, grace_seconds=0)
        await self._client.delete(API, GROUPS, self.namespace, name, propagation="Background")


async def one_round(drivers: Drivers, client: KubeClient, operator: Operator, number: int, groups: int) -> Round:
    """Create, wait, delete."""
    names, found = [f"r{number}-g{index}" for index in range(groups)], Round()
    empty_mb, sandboxes = rss_mb(operator.pid), groups * REPLICAS
    before = await api_writes.count(client)
    started = time.monotonic()
    await drivers.declare(names)
    await drivers.until(lambda phases: sum(phases.get(name) == "Ready" for name in names) == groups)
    found.ready_seconds = time.monotonic() - started
    found.rss_mb = rss_mb(operator.pid)
    found.grown_kb = 1e3 * (found.rss_mb - empty_mb) / sandboxes
    started = time.monotonic()
    await drivers.release(names)
    await drivers.until(lambda phases: not phases)
    found.gone_seconds = time.monotonic() - started
    await asyncio.sleep(5)  # what the operator still has to say
    found.writes = api_writes.writes_between(before, await api_writes.count(client))
    print(
        f"round {number}: Ready {found.ready_seconds:.1f} s, gone {found.gone_seconds:.1f} s, operator "
        f"{found.rss_mb:.0f} MB, {found.grown_kb:.1f} kB more a sandbox, "
        f"{sum(found.writes.values()) / sandboxes:.2f} writes",
        flush=True,
    )
    return found


async def hand_over(drivers: Drivers, client: KubeClient, leading: Operator, standby: str, groups: int) -> HandOver:
    """Stop the leader while it creates Pods."""
    names = [f"h-g{index}" for index in range(groups)]
    pod_uids = PodUidRecorder()
    task = asyncio.create_task(pod_uids.follow(client, drivers.namespace))
    await drivers.declare(names)
    await drivers.until(lambda phases: sum(phase == "Ready" for phase in phases.values()) >= groups // 4)
    started = time.monotonic()
    stopped = asyncio.create_task(asyncio.to_thread(leading.kill, signal.SIGTERM))
    await until_held(client, drivers.namespace, standby)
    taken = time.monotonic() - started
    await drivers.until(lambda phases: sum(phases.get(name) == "Ready" for name in names) == groups)
    found = HandOver(taken, time.monotonic() - started, pod_uids.duplicates)
    await stopped
    task.cancel()
    await drivers.release(names)
    print(
        f"hand-over: new leader {found.taken:.2f} s, all Ready {found.ready:.1f} s, {found.duplicates} twice",
        flush=True,
    )
    return found


async def until_held(client: KubeClient, namespace: str, identity: str) -> None:
    """Wait until the operators' Lease names `identity`."""
    async with asyncio.timeout(60):
        while True:
            lease = await client.get("coordination.k8s.io/v1", "leases", namespace, LEASE)
            if lease["spec"]["holderIdentity"] == identity:
                return
            await asyncio.sleep(0.02)


def rss_mb(pid: int, kind: str = "VmRSS") -> float:
    """Resident memory of a process, 10⁶ bytes; `VmHWM` for its peak."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return next(int(words[1]) * 1024 / 1e6 for words in lines if words[0] == f"{kind}:")


def p99(times: list[float]) -> float:
    """99th percentile."""
    return sorted(times)[int(0.99 * len(times))]


def figures(rounds: list[Round], peak_mb: float, others: list[float], handed: HandOver) -> list[Figure]:
    """The figures that the goals limit."""
    sizes = [one.rss_mb for one in rounds]
    writes = [sum(one.writes.values()) / SANDBOXES for one in rounds]
    return [
        Figure(f"ready_{SANDBOXES}_s_slowest", max(one.ready_seconds for one in rounds), READY_SECONDS),
        Figure("operator_rss_peak_mb", peak_mb, RSS_MB),
        Figure("operator_kb_per_sandbox", rounds[0].grown_kb, KB_A_SANDBOX),
        Figure("operator_rss_drift", max(abs(size / fmean(sizes) - 1) for size in sizes), RSS_DRIFT),
        Figure("others_p99_s", p99(others), OTHERS_SECONDS),
        Figure("api_writes_per_sandbox_most", max(writes), WRITES),
        Figure("hand_over_s", handed.taken, HAND_OVER_SECONDS),
        Figure("hand_over_pods_made_twice", handed.duplicates, 0),
    ]


async def measure(cluster: DemoCluster, folder: Path) -> list[Figure]:
    """All figures; nodes, namespaces and operators are gone afterwards."""
    namespace, small = f"bench-scale-{os.urandom(3).hex()}", max(10, SANDBOXES // REPLICAS // 10)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    cluster.helm("uninstall", "swe-rl", "--namespace", "swerl-system", "--ignore-not-found", "--wait")
    cluster.kubectl("create", "namespace", namespace)
    options = {"namespaces": namespace, "lease_namespace": namespace}
    pods_each = -(-SANDBOXES // NODES) + 10
    first = Operator(str(cluster.kubeconfig), folder / "operator.log", identity=FIRST, **options)
    second = Operator(str(cluster.kubeconfig), folder / "standby.log", identity=SECOND, **options)
    try:
        with (
            fake_nodes(cluster, NODES, pods_each, folder),
            probed_pod(cluster, f"{namespace}-others") as prober,
            first,
        ):
            return await _measure(cluster, namespace, (first, second), prober.stop, small)
    finally:
        # Ten thousands of Events go with it: what is measured next would share the API server with that.
        cluster.kubectl("delete", "namespace", namespace, timeout=600)


async def _measure(
    cluster: DemoCluster,
    namespace: str,
    operators: tuple[Operator, Operator],
    stop: Callable[[], list[float]],
    small: int,
) -> list[Figure]:
    first, second = operators
    first.until_leading()
    async with KubeClient.from_environment(str(cluster.kubeconfig)) as client:
        drivers = Drivers(client, namespace)
        async with drivers.watching():
            rounds = [
                await one_round(drivers, client, first, number, SANDBOXES // REPLICAS) for number in range(ROUNDS)
            ]
            peak, others = rss_mb(first.pid, "VmHWM"), stop()
            with second:
                second.until_standing_by()
                handed = await hand_over(drivers, client, first, SECOND, small)
    print(api_writes.table(rounds[0].writes, SANDBOXES))
    return figures(rounds, peak, others, handed)


def main() -> int:
    folder = swerl_home() / "bench-scale"
    folder.mkdir(parents=True, exist_ok=True)
    return conclude(asyncio.run(measure(DemoCluster.from_environment(), folder)), folder / "figures.json")


if __name__ == "__main__":
    sys.exit(main())
