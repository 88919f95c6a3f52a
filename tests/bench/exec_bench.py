"""Exec of a short command: a warm session against kubernetes-python's one-shot `stream()`, call by call in turn.

Like against like: `true` without a login shell on either side, and `echo` in a login shell on both (the default of a
session; `bash -lc` for the peer). Medians in milliseconds. QUICK=1 makes it short. Both sides run in one Pod, on one
cluster, in the same minute; ours is the public `Session.run` with all its bookkeeping, the peer is the call its
documentation shows, with a client of its own. `sandbox_bench` compares more peers and more than time.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from swerl_kube import KubeClient

from demo.cluster import DemoCluster
from tests.bench.exec_peers.clients import (
    Client,
    KubernetesPython,
    KubernetesPythonWithLogin,
    PodTargets,
    Swerl,
    SwerlWithLogin,
)
from tests.bench.exec_peers.targets import pods
from tests.bench.figures import QUICK, Figure, conclude

ROUNDS = 15 if QUICK else 100
Kind = Callable[[PodTargets], Client]
COMPARED: dict[str, tuple[Kind, Kind, tuple[str, ...], float]] = {  # ours, the peer, command, promised ratio of medians
    "exec_true_ms": (Swerl, KubernetesPython, ("true",), 0.1),
    "exec_echo_login_ms": (SwerlWithLogin, KubernetesPythonWithLogin, ("echo", "hello"), 0.2),
}
Call = Callable[[], Awaitable[None]]


async def figures(kubeconfig: str) -> list[Figure]:
    """The compared figures, from a Pod of their own."""
    async with KubeClient.from_environment(kubeconfig) as client, pods(client, kubeconfig, 1) as place:
        return [await _compare(name, place) for name in COMPARED]


async def _compare(name: str, place: PodTargets) -> Figure:
    kind, peers, command, goal = COMPARED[name]
    ours, peer = kind(place), peers(place)
    await ours.open(1)
    try:
        mine, theirs = await _medians(_call(ours, command), _call(peer, command))
    finally:
        await ours.close()
        await peer.close()
    return Figure(name, mine, goal, peer=theirs)


def _call(client: Client, command: Sequence[str]) -> Call:
    async def call() -> None:
        assert (await client.run(0, command, 60)).exit_code == 0

    return call


async def _medians(*calls: Call) -> list[float]:
    """Median milliseconds of each call, taken in turn."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        await call()
    for _ in range(ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            started = time.perf_counter()
            await call()
            taken.append(1e3 * (time.perf_counter() - started))
    return [statistics.median(taken) for taken in times]


if __name__ == "__main__":
    sys.exit(conclude(asyncio.run(figures(str(DemoCluster.from_environment().kubeconfig)))))
