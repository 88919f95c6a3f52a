"""Commands in sandboxes: the session against every other way into a Pod, on the same Pods, turn by turn.

Each client has a process of its own, a fresh one for every load (a command at one number of callers), so that sockets
and memory are that load's; within a load the rounds of the clients are interleaved. What is promised compares plain
commands on both sides; a session's default, the login shell, stands beside a peer that asks for one, too. QUICK=1 has
one round, fewer Pods and callers, and holds the sessions for two minutes instead of thirty.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from swerl_kube import KubeClient

from cluster import layout
from demo.cluster import DemoCluster
from tests.bench.exec_peers.clients import CLIENTS, MOST_SLOTS, PodTargets
from tests.bench.exec_peers.correctness import CHECKS, KILLED
from tests.bench.exec_peers.open_sessions import OpenSessions, measure_open_sessions
from tests.bench.exec_peers.rex import servers
from tests.bench.exec_peers.targets import pods
from tests.bench.exec_peers.workers import Load, Worker, worker
from tests.bench.figures import QUICK, Figure, conclude
from tests.chaos.components import Components

PODS = 16 if QUICK else 32
SLOTS = (1, 16, 64) if QUICK else (1, 16, 64, 128, 512)
ROUNDS = 1 if QUICK else 3
SECONDS = 3.0 if QUICK else 6.0  # of every load
HOLD_SECONDS = 120 if QUICK else 1800
OURS, PEER = "ours", "kubernetes-python"
MIB_SLOTS = 16
PLAN = [("true", slots) for slots in SLOTS] + [("1MiB", 1), ("1MiB", MIB_SLOTS)]
KILL_AFTER = 2.0  # seconds from the start of the command
DEAD_SECONDS = 1.0  # until it is started again: one that is killed holds its port until all its threads have ended
COLUMNS = "command callers client p50_ms p99_ms per_s cpu_ms apiserver_ms kubelet_ms machine_ms sockets rss_mib failed"
Loads = Mapping[tuple[str, str, int], Load]
Matrix = Mapping[str, Mapping[str, bool]]


async def measure(cluster: layout.Cluster, place: PodTargets) -> Loads:
    """Every client at every concurrency, all clients of a load in turn, round by round."""
    loads: dict[tuple[str, str, int], Load] = {}
    for command, slots in PLAN:
        names = [name for name in CLIENTS if slots <= MOST_SLOTS.get(name, slots)]
        async with _workers(names, cluster, place) as workers:
            for one in workers:
                await one.request(do="open", slots=slots, command=command)
            for _ in range(ROUNDS):
                for one in workers:
                    load = loads.setdefault((one.name, command, slots), Load())
                    await one.load(load, command, slots, SECONDS)
                    print(f"{command} {slots} {one.name}: {load.median:.1f} ms, {load.rate:.1f}/s", flush=True)
    return loads


async def check_clients(cluster: layout.Cluster, place: PodTargets) -> Matrix:
    """What each client does right; nothing is timed here, so all at once, and one end of the API server for all."""
    components = Components(place.kubeconfig)
    async with _workers(CLIENTS, cluster, place) as workers:
        found = dict(zip([one.name for one in workers], await asyncio.gather(*map(_check_one, workers)), strict=True))
        checks = [asyncio.create_task(one.request(do="check", name=KILLED)) for one in workers]
        await asyncio.sleep(KILL_AFTER)
        components.kill("apiserver")
        await asyncio.sleep(DEAD_SECONDS)
        await components.start("apiserver")
        for one, answer in zip(workers, await asyncio.gather(*checks), strict=True):
            found[one.name][KILLED] = answer["right"]
    return found


async def _check_one(one: Worker) -> dict[str, bool]:
    await one.request(do="open", slots=1)
    return {name: (await one.request(do="check", name=name))["right"] for name in CHECKS if name != KILLED}


@asynccontextmanager
async def _workers(names: Iterable[str], cluster: layout.Cluster, place: PodTargets) -> AsyncIterator[list[Worker]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(worker(name, cluster, place)) for name in names]


def table(loads: Loads) -> str:
    """All columns of all clients."""
    rows = [COLUMNS.split()]
    for (name, command, slots), load in loads.items():
        times = [load.median, load.quantile(0.99), load.rate]
        costs = [load.per_command(used) for used in (load.client, load.apiserver, load.kubelet, load.machine)]
        cells = [f"{value:.1f}" for value in times + costs]
        size = f"{load.memory / (1 << 20):.0f}"
        rows.append([command, str(slots), name, *cells, str(load.sockets), size, str(len(load.failures))])
    return _aligned(rows)


def matrix(found: Matrix) -> str:
    rows = [["", *found]]
    rows += [[name.replace(" ", "_"), *("yes" if right[name] else "no" for right in found.values())] for name in CHECKS]
    return _aligned(rows)


def figures(loads: Loads, found: Matrix, kept: OpenSessions) -> list[Figure]:
    """What is promised."""

    def pair(command: str, slots: int) -> tuple[Load, Load]:
        return loads[OURS, command, slots], loads[PEER, command, slots]

    one, its = pair("true", 1)
    many, theirs = pair("true", 64)
    bulk, their_bulk = pair("1MiB", MIB_SLOTS)
    return [
        Figure("exec_true_p50_ms", one.median, 1 / 12, peer=its.median),
        Figure("exec_machine_cpu_ms", one.per_command(one.machine), 0.1, peer=its.per_command(its.machine)),
        Figure("exec_client_cpu_ms", one.per_command(one.client), 0.1, peer=its.per_command(its.client)),
        Figure("exec_per_s_at_64", many.rate, 8, peer=theirs.rate, at_least=True),
        Figure("mib_of_stdout_per_s", bulk.rate, 3, peer=their_bulk.rate, at_least=True),
        Figure("failed_commands", sum(len(loads[key].failures) for key in loads if key[0] == OURS), 0),
        Figure("correct_checks", sum(found[OURS].values()), len(CHECKS), at_least=True),
        Figure("held_512_cores", kept.cores, 0.25),
        Figure("held_512_rss_mb", kept.memory / 1e6, 300),
        Figure("held_512_lost", kept.lost, 0),
    ]


async def run(kubeconfig: str, cluster: layout.Cluster) -> int:
    folder = layout.swerl_home() / "bench-sandbox"
    folder.mkdir(parents=True, exist_ok=True)
    async with KubeClient.from_environment(kubeconfig) as client, pods(client, kubeconfig, PODS) as bare:
        place = await servers(client, bare)
        loads, found = await measure(cluster, place), await check_clients(cluster, place)
        (folder / "matrix.json").write_text(json.dumps(found, indent=1))
        (folder / "table.txt").write_text(table(loads) + "\n")
        print(f"\n{table(loads)}\n\n{matrix(found)}\n", flush=True)
        kept = await measure_open_sessions(place, HOLD_SECONDS)
    print(f"{kept.commands} commands on held sessions\n")
    return conclude(figures(loads, found, kept), folder / "figures.json")


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


if __name__ == "__main__":
    chosen = layout.find(layout.cluster_name(), layout.swerl_home())
    if chosen is None:
        sys.exit("bench-sandbox measures the daemons of the local cluster: start it with `make cluster`")
    sys.exit(asyncio.run(run(str(DemoCluster.from_environment().kubeconfig), chosen)))
