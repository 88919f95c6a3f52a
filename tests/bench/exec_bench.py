"""Exec of `true`: a warm session against kubernetes-python's one-shot `stream()`, call by call in turn.

Medians in milliseconds. QUICK=1 makes it short. Both sides run in one Pod, on one cluster, in the same minute;
ours is the public `Session.run` with all its bookkeeping, the peer is the call its documentation shows, with a client
of its own.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from kubernetes import client as official
from kubernetes import config
from kubernetes.stream import stream
from swerl_agent.kube import Conflict, Forbidden, KubeClient
from swerl_agent.sandbox import PodConnector, Session
from swerl_agent.sandbox.pod import ready

from demo.cluster import Cluster
from tests.bench.figures import QUICK, Figure, conclude

IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
ROUNDS = 15 if QUICK else 100
TRUE_GOAL, ECHO_GOAL = 0.1, 0.2  # of the peer's median; output costs two processes in the Pod: count it, send it
Call = Callable[[], Awaitable[None]]


async def figures(kubeconfig: str) -> list[Figure]:
    """The compared figures, from a Pod of their own."""
    async with KubeClient.from_environment(kubeconfig) as client:
        namespace, name = await _place(client)
        try:
            return await _compare(client, kubeconfig, namespace, name)
        finally:
            await client.delete("v1", "namespaces", None, namespace)


async def _place(client: KubeClient) -> tuple[str, str]:
    """A namespace with one ready Pod."""
    namespace, name = f"bench-exec-{os.urandom(3).hex()}", "swesb-bench-0"
    await client.create("v1", "namespaces", None, {"metadata": {"name": namespace}})
    container = {"name": "sandbox", "image": IMAGE, "command": ["sleep", "3600"]}
    spec = {"containers": [container], "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    async with asyncio.timeout(180):
        while True:
            try:
                await client.create("v1", "pods", namespace, {"metadata": {"name": name}, "spec": spec})
            except Conflict:
                if ready(await client.get("v1", "pods", namespace, name)):
                    return namespace, name
            except Forbidden:  # the namespace's service account takes a moment to exist
                pass
            await asyncio.sleep(0.2)


async def _compare(client: KubeClient, kubeconfig: str, namespace: str, name: str) -> list[Figure]:
    uid = (await client.get("v1", "pods", namespace, name))["metadata"]["uid"]
    config.load_kube_config(kubeconfig)  # type: ignore[no-untyped-call]
    core = official.CoreV1Api(official.ApiClient())

    def one_shot(*command: str) -> Call:
        return lambda: asyncio.to_thread(_stream, core, namespace, name, list(command))

    async with Session(PodConnector(client, namespace, name, uid=uid)) as session:

        def run(command: str) -> Call:
            async def call() -> None:
                assert (await session.run(command, timeout=60)).exit_code == 0

            return call

        pairs = {
            "exec_true_ms": (run("true"), one_shot("true"), TRUE_GOAL),
            "exec_echo_ms": (run("echo hello"), one_shot("bash", "-lc", "echo hello"), ECHO_GOAL),
        }
        found = []
        for label, (ours, peer, goal) in pairs.items():
            mine, theirs = await _medians(ours, peer)
            found.append(Figure(label, mine, goal, peer=theirs))
        return found


def _stream(core: Any, namespace: str, name: str, command: list[str]) -> None:
    stream(
        core.connect_get_namespaced_pod_exec, name, namespace, command=command,
        stderr=True, stdin=False, stdout=True, tty=False,
    )  # fmt: skip


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
    sys.exit(conclude(asyncio.run(figures(str(Cluster.chosen().kubeconfig)))))
