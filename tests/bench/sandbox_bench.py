"""Commands in sandboxes: the session against every other way into a Pod, on the same Pods, turn by turn.

Each client has a process of its own; rounds are interleaved. QUICK=1 has one round, fewer Pods and callers, and holds
the sessions for two minutes instead of thirty.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack

from swerl_agent.kube import KubeClient

from cluster import layout, lifecycle
from demo.cluster import Cluster
from tests.bench.exec_peers.clients import CLIENTS, MOST_SLOTS, Place
from tests.bench.exec_peers.correctness import CHECKS, RESTART
from tests.bench.exec_peers.held import Held, held
from tests.bench.exec_peers.place import pods
from tests.bench.exec_peers.rex import servers
from tests.bench.exec_peers.workers import Load, Worker, worker
from tests.bench.figures import QUICK, Figure, conclude

PODS = 16 if QUICK else 32
SLOTS = (1, 16, 64) if QUICK else (1, 16, 64, 128, 512)
ROUNDS = 1 if QUICK else 3
SECONDS = 3.0 if QUICK else 6.0  # of every load
HOLD_SECONDS = 120 if QUICK else 1800
OURS, PEER = "ours", "kubernetes-python"
MIB_SLOTS = 16
RESTART_AFTER = 2.0  # seconds from the start of the command
COLUMNS = "command callers client p50_ms p99_ms per_s cpu_ms apiserver_ms kubelet_ms machine_ms sockets rss_mib failed"
Loads = Mapping[tuple[str, str, int], Load]
Matrix = Mapping[str, Mapping[str, bool]]


async def measure(workers: list[Worker]) -> Loads:
    """Every client at every concurrency."""
    plan = [("true", slots) for slots in SLOTS] + [("1MiB", 1), ("1MiB", MIB_SLOTS)]
    loads = {
        (one.name, command, slots): Load()
        for command, slots in plan
        for one in workers
        if slots <= MOST_SLOTS.get(one.name, slots)
    }
    for _ in range(ROUNDS):
        for command, slots in plan:
            for one in workers:
                if load := loads.get((one.name, command, slots)):
                    await one.load(load, command, slots, SECONDS)
                    print(f"{command} {slots} {one.name}: {load.median:.1f} ms, {load.rate:.1f}/s", flush=True)
    return loads


async def judge(workers: list[Worker], cluster: layout.Cluster) -> Matrix:
    """What each client does right; nothing is timed here, so all at once, and one restart of the API server for all."""
    found = dict(zip([one.name for one in workers], await asyncio.gather(*map(_judged, workers)), strict=True))
    checks = [asyncio.create_task(one.ask(do="check", name=RESTART)) for one in workers]
    await asyncio.sleep(RESTART_AFTER)
    await asyncio.to_thread(lifecycle.restart, cluster, "apiserver")
    for one, answer in zip(workers, await asyncio.gather(*checks), strict=True):
        found[one.name][RESTART] = answer["right"]
    return found


async def _judged(one: Worker) -> dict[str, bool]:
    await one.ask(do="open", slots=1)
    return {name: (await one.ask(do="check", name=name))["right"] for name in CHECKS if name != RESTART}


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


def figures(loads: Loads, found: Matrix, kept: Held) -> list[Figure]:
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
        loads, found = await _compared(cluster, place)
        (folder / "matrix.json").write_text(json.dumps(found, indent=1))
        (folder / "table.txt").write_text(table(loads) + "\n")
        print(f"\n{table(loads)}\n\n{matrix(found)}\n", flush=True)
        kept = await held(place, HOLD_SECONDS)
    print(f"{kept.commands} commands on held sessions\n")
    return conclude(figures(loads, found, kept), folder / "figures.json")


async def _compared(cluster: layout.Cluster, place: Place) -> tuple[Loads, Matrix]:
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(worker(name, cluster, place)) for name in CLIENTS]
        return await measure(workers), await judge(workers, cluster)


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


if __name__ == "__main__":
    chosen = layout.find(layout.DEFAULT_NAME, layout.swerl_home())
    if chosen is None:
        sys.exit("bench-sandbox measures the daemons of the local cluster: start it with `make cluster`")
    sys.exit(asyncio.run(run(str(Cluster.chosen().kubeconfig), chosen)))
