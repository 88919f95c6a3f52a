"""Whole trajectories in sandboxes: start to gone, ours against bare Pods, agent-sandbox, SWE-ReX and Ray's own.

Every way runs the same commands in the same image on the same node, load by load and round by round in turn. A
trajectory requests its sandbox, runs its commands one after the other, and ends when the sandbox is gone. Ours appears
twice: claimed when the trajectory begins, and declared ahead as a driver does it. QUICK=1 has fewer loads and rounds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from swerl_agent.event_loop import run as run_loop
from swerl_kube import KubeClient

from cluster import layout
from demo.cluster import DemoCluster
from tests.bench.agent_sandbox import WarmPool, controller
from tests.bench.exec_peers.rex import packages
from tests.bench.figures import QUICK, Figure, conclude
from tests.bench.served_namespace import served_namespace
from tests.bench.trajectories.images import export_archive, python_of, ray_image
from tests.bench.trajectories.peers import AgentSandbox, BarePods, SweRex
from tests.bench.trajectories.pods import watched_pods
from tests.bench.trajectories.ray_pod import RaySandbox, ray_program
from tests.bench.trajectories.results import Load, Meter, Trajectories, table
from tests.bench.trajectories.sandboxes import Claimed, Prefetched
from tests.bench.trajectories.way import RESOURCES, Place, Way

IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
MANY = 16
OURS, PREFETCHED, BARE, RAY_ACTOR, RAY_RUNTIME = "ours", "ours-prefetched", "bare-pods", "ray-actor", "ray-runtime"
LOADS = [Load(10, 1), Load(50, 1), Load(50, MANY)] if QUICK else [
    Load(commands, at_once) for at_once in (1, MANY) for commands in (10, 50, 150)
]  # fmt: skip
ROUNDS = {1: 2 if QUICK else 3, MANY: 1}  # by trajectories at once
BARE_RATIO, RAY_RATIO = 1 / 3, 1.2
Found = Mapping[tuple[Load, str], Trajectories]


@asynccontextmanager
async def ways(place: Place, cluster: DemoCluster) -> AsyncIterator[dict[str, Way]]:
    """All ways, ready to take trajectories."""
    async with AsyncExitStack() as stack:
        files = await export_archive(place)
        rex = SweRex(place, await asyncio.to_thread(packages, await python_of(place)))
        pool = WarmPool(place.client, place.namespace, MANY)
        stack.enter_context(controller(cluster, place.folder))
        await pool.fill(
            {"name": "sandbox", "image": place.image, "command": ["sleep", "86400"], "resources": RESOURCES}
        )
        stack.push_async_callback(pool.drain)
        program = await stack.enter_async_context(ray_program(place, ray_image(), files))
        yield {
            OURS: Claimed(place),
            PREFETCHED: Prefetched(place),
            BARE: BarePods(place),
            "agent-sandbox": AgentSandbox(place, pool),
            "swe-rex": rex,
            RAY_ACTOR: RaySandbox(program, "actor"),
            RAY_RUNTIME: RaySandbox(program, "runtime"),
        }


async def measure(taken: Mapping[str, Way], meter: Meter) -> Found:
    """Every way at every load, after one uncounted trajectory each, all ways of a load in turn."""
    for name, way in taken.items():
        await meter.round(way, Trajectories(Load(1, 1)), [f"warm-up-{name}"])
    await meter.calibrate()
    found: dict[tuple[Load, str], Trajectories] = {}
    for load in LOADS:
        for number in range(ROUNDS[load.at_once]):
            for name, way in taken.items():
                one = found.setdefault((load, name), Trajectories(load))
                await meter.round(way, one, [f"{name}-{load.commands}-{number}-{i}" for i in range(load.at_once)])
                print(f"{load.commands} commands, {load.at_once} at once, {name}: {one.median:.2f} s", flush=True)
    return found


def figures(found: Found) -> list[Figure]:
    """What is promised, at 50 commands."""
    return [figure for at_once in (1, MANY) for figure in _against_peers(found, Load(50, at_once))]


def _against_peers(found: Found, load: Load) -> Iterable[Figure]:
    ours, bare = found[load, OURS], found[load, BARE]
    ray = min((found[load, name] for name in (RAY_ACTOR, RAY_RUNTIME)), key=lambda one: one.median)
    many = f"_{load.at_once}_at_once" if load.at_once > 1 else ""
    yield Figure(f"trajectory_50{many}_s", ours.median, BARE_RATIO, peer=bare.median)
    yield Figure(f"trajectory_50{many}_prefetched_s", found[load, PREFETCHED].median, BARE_RATIO, peer=bare.median)
    yield Figure(f"trajectory_50{many}_against_ray_s", ours.median, RAY_RATIO, peer=ray.median)


async def run(cluster: DemoCluster, local: layout.Cluster, namespace: str, folder: Path) -> list[Figure]:
    """All figures; an operator serves `namespace`."""
    kubeconfig = str(cluster.kubeconfig)
    async with (
        KubeClient.from_environment(kubeconfig) as client,
        watched_pods(client, namespace) as pods,
        ways(Place(client, kubeconfig, namespace, IMAGE, pods, folder), cluster) as taken,
    ):
        found = await measure(taken, Meter(client, local))
    (folder / "table.txt").write_text(table(found) + "\n")
    print(f"\n{table(found)}\n", flush=True)
    return figures(found)


def main() -> int:
    local = layout.find(layout.cluster_name(), layout.swerl_home())
    if local is None:
        sys.exit("bench-trajectory measures the daemons of the local cluster: start it with `make cluster`")
    cluster, folder = DemoCluster.from_environment(), layout.swerl_home() / "bench-trajectory"
    with served_namespace(cluster, "bench-trajectory", folder) as (namespace, _):
        found = run_loop(run(cluster, local, namespace, folder))
    return conclude(found, folder / "figures.json")


if __name__ == "__main__":
    sys.exit(main())
