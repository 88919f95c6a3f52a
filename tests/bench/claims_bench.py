"""Groups and claims on a real node: a group of 64 against 64 bare Pods, claims ahead of time against a warm pool's.

Groups and bare Pods are of the same manifest and take turns. Ours are claimed as a driver does it: the next group is
declared and prepared while commands run in the present one. The peer is the agent-sandbox controller with its warm
pool, claim by claim, until it says that a sandbox is there, and a one-shot `stream()` for the first command, as it has
no exec of its own. QUICK=1 takes fewer of each.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerl_agent.kube import KubeClient
from swerl_agent.sandbox.group import SandboxGroup
from swerl_agent.sandbox.pod import ready
from swerl_api.names import JOB_LABEL
from swerl_api.swesandbox import SweSandboxSpec
from swerl_operator.sandboxes.facts import read_group
from swerl_operator.sandboxes.pods import sandbox_pod
from swerl_operator.sandboxes.settings import SandboxSettings

from cluster.layout import swerl_home
from demo.cluster import ROOT, Cluster
from tests.bench import api_writes
from tests.bench.agent_sandbox import WarmPool, controller
from tests.bench.exec_peers.clients import KubernetesPython, Place
from tests.bench.figures import QUICK, Figure, conclude
from tests.control_plane.operator_process import Operator

IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
SIZE = 64  # of the big group; a node takes 250 Pods
ROUNDS = 1 if QUICK else 3
GROUPS = 4 if QUICK else 10  # claimed one after the other
REPLICAS = 4
CLAIMS = 8 if QUICK else 24  # of the peer
POOL = 8
WORK_SECONDS = 6.0  # commands run in a group this long before the next is claimed
SETTLE_SECONDS = 5.0  # the node's end of a teardown
PATIENCE = 600.0
READY_RATIO, CLAIM_MS, CLAIM_RATIO, WRITES, WRITES_RATIO = 1.1, 50.0, 0.5, 3.0, 0.3
API, SANDBOXES, JOB = "swerl.dev/v1alpha1", "swesandboxes", "bench"
AMOUNTS: dict[str, str | int] = {"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "16Mi"}
Json = dict[str, Any]


def group_body(namespace: str, name: str, replicas: int) -> Json:
    """A SweSandbox as a driver declares it."""
    spec = {
        "image": IMAGE,
        "replicas": replicas,
        "workdir": "/",
        "scrubGit": False,
        "resources": {"requests": AMOUNTS, "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "1Gi"}},
    }
    metadata = {"name": name, "namespace": namespace, "labels": {JOB_LABEL: JOB}}
    return {"apiVersion": API, "kind": "SweSandbox", "metadata": metadata, "spec": spec}


def bare_pods(namespace: str, name: str) -> list[Json]:
    """The Pods of such a group, with no group."""
    group = read_group(
        group_body(namespace, name, SIZE) | {"metadata": {"namespace": namespace, "name": name, "uid": ""}}
    )
    pods = [sandbox_pod(group, ordinal, SandboxSettings()) for ordinal in range(SIZE)]
    for pod in pods:
        pod["metadata"].pop("ownerReferences")
    return pods


class Node:
    """Starts of many Pods at once, measured."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def group(self, name: str) -> float:
        """Seconds until a group of SIZE says Ready."""
        started = time.monotonic()
        await self._client.create(API, SANDBOXES, self._namespace, group_body(self._namespace, name, SIZE))
        await self._until(API, SANDBOXES, lambda seen: seen.get(name, {}).get("status", {}).get("phase") == "Ready")
        took = time.monotonic() - started
        await self._client.delete(API, SANDBOXES, self._namespace, name, propagation="Background")
        await self._empty()
        return took

    async def bare(self, name: str) -> float:
        """Seconds until SIZE Pods, created at once, are all Ready."""
        pods, started = bare_pods(self._namespace, name), time.monotonic()
        await asyncio.gather(*(self._client.create("v1", "pods", self._namespace, pod) for pod in pods))
        await self._until("v1", "pods", lambda seen: sum(map(ready, seen.values())) == SIZE)
        took = time.monotonic() - started
        await asyncio.gather(
            *(self._client.delete("v1", "pods", self._namespace, pod["metadata"]["name"]) for pod in pods)
        )
        await self._empty()
        return took

    async def _empty(self) -> None:
        await self._until("v1", "pods", lambda seen: not seen)
        await asyncio.sleep(SETTLE_SECONDS)

    async def _until(self, api: str, resource: str, done: Callable[[dict[str, Json]], bool]) -> None:
        """Follow a collection until `done` accepts its objects by name."""
        seen = {
            item["metadata"]["name"]: item
            for item in (await self._client.list(api, resource, self._namespace))["items"]
        }
        if done(seen):
            return
        async with asyncio.timeout(PATIENCE):
            async for event in self._client.watch(api, resource, self._namespace):
                name = event.object["metadata"]["name"]
                if event.type == "DELETED":
                    seen.pop(name, None)
                else:
                    seen[name] = event.object
                if done(seen):
                    return


async def claims_ahead(client: KubeClient, namespace: str) -> tuple[list[float], list[float]]:
    """Milliseconds from asking for a prepared sandbox to having it, and to the answer of the first command in it."""
    spec = SweSandboxSpec.model_validate(group_body(namespace, "", REPLICAS)["spec"])

    async def declare(number: int) -> SandboxGroup:
        name = f"ahead-{number}"
        group = await SandboxGroup.declare(client, name=name, spec=spec, labels={JOB_LABEL: JOB}, namespace=namespace)
        group.prepare()
        return group

    waits: list[float] = []
    answers: list[float] = []
    following = await declare(0)
    for number in range(GROUPS):
        group, following = following, await declare(number + 1)
        sessions = []
        for ordinal in range(REPLICAS):
            started = time.perf_counter()
            sessions.append(await group.claim(ordinal))
            claimed = time.perf_counter()
            await sessions[-1].run("true", timeout=60)
            if number:  # nobody had the time to prepare the first
                waits.append(1e3 * (claimed - started))
                answers.append(1e3 * (time.perf_counter() - started))
        await asyncio.gather(*(session.run(f"sleep {WORK_SECONDS}", timeout=60) for session in sessions))
        for ordinal in range(REPLICAS):
            await group.release(ordinal)
        await group.delete()
    for ordinal in range(REPLICAS):
        await following.claim(ordinal)
        await following.release(ordinal)
    await following.delete()
    return waits, answers


@dataclass(frozen=True)
class Claims:
    """The peer's, in milliseconds."""

    waits: list[float]  # until a claim is Ready
    answers: list[float]  # until the first command's answer
    writes: float  # to the API for each claim, with what refills the pool


async def claims_of_peer(client: KubeClient, kubeconfig: str, namespace: str) -> Claims:
    """Claim after claim on a full warm pool."""
    pool, one_shot = WarmPool(client, namespace, POOL), KubernetesPython(Place(kubeconfig, namespace, (), ()))
    container = {"name": "sandbox", "image": IMAGE, "command": ["sleep", "86400"], "resources": {"requests": AMOUNTS}}
    await pool.fill(container)
    await asyncio.sleep(SETTLE_SECONDS)
    before, waits, answers = await api_writes.count(client), [], []
    for number in range(CLAIMS):
        wait, pod = await pool.claim(f"claim-{number}")
        started = time.perf_counter()
        assert (await one_shot.run_in(pod, ["true"], 60)).exit_code == 0
        waits.append(1e3 * wait)
        answers.append(1e3 * (wait + time.perf_counter() - started))
        await pool.release(f"claim-{number}")
        await pool.full()
    await asyncio.sleep(SETTLE_SECONDS)
    writes = api_writes.spent(before, await api_writes.count(client))
    print(f"agent-sandbox, writes per claim:\n{api_writes.table(writes, CLAIMS)}", flush=True)
    await pool.drain()
    await one_shot.close()
    return Claims(waits, answers, sum(writes.values()) / CLAIMS)


async def starts(client: KubeClient, namespace: str) -> tuple[list[float], list[float]]:
    """Seconds of groups and of bare Pods, in turns."""
    node, ours, theirs = Node(client, namespace), [], []
    await node.bare("warm-up")
    for number in range(ROUNDS):
        ours.append(await node.group(f"group-{number}"))
        theirs.append(await node.bare(f"bare-{number}"))
        print(f"round {number}: group of {SIZE} {ours[-1]:.1f} s, bare Pods {theirs[-1]:.1f} s", flush=True)
    return ours, theirs


async def measure(cluster: Cluster, namespace: str, folder: Path) -> list[Figure]:
    """All figures; an operator serves `namespace`."""
    async with KubeClient.from_environment(str(cluster.kubeconfig)) as client:
        groups, bare = await starts(client, namespace)
        before = await api_writes.count(client)
        waits, answers = await claims_ahead(client, namespace)
        await asyncio.sleep(SETTLE_SECONDS)
        sandboxes = (GROUPS + 1) * REPLICAS
        spent = api_writes.spent(before, await api_writes.count(client))
        print(f"ours, writes per sandbox:\n{api_writes.table(spent, sandboxes)}", flush=True)
        with controller(cluster, folder):
            theirs = await claims_of_peer(client, str(cluster.kubeconfig), namespace)
    writes, median = sum(spent.values()) / sandboxes, statistics.median
    return [
        Figure(f"group_of_{SIZE}_ready_s", median(groups), READY_RATIO, peer=median(bare)),
        Figure("claim_ahead_p50_ms", median(waits), CLAIM_MS),
        Figure("claim_against_warm_pool_ms", median(waits), CLAIM_RATIO, peer=median(theirs.waits)),
        Figure("claim_and_first_command_ms", median(answers), CLAIM_RATIO, peer=median(theirs.answers)),
        Figure("api_writes_per_sandbox", writes, WRITES),
        Figure("api_writes_against_warm_pool", writes, WRITES_RATIO, peer=theirs.writes),
    ]


def main() -> int:
    cluster, folder = Cluster.chosen(), swerl_home() / "bench-claims"
    folder.mkdir(parents=True, exist_ok=True)
    namespace = f"bench-claims-{os.urandom(3).hex()}"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    cluster.helm("uninstall", "swe-rl", "--namespace", "swerl-system", "--ignore-not-found", "--wait")
    cluster.kubectl("create", "namespace", namespace)
    options = {"namespaces": namespace, "lease_namespace": namespace}
    try:
        with Operator(str(cluster.kubeconfig), folder / "operator.log", **options) as operator:
            operator.until_leading()
            found = asyncio.run(measure(cluster, namespace, folder))
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    return conclude(found, folder / "figures.json")


if __name__ == "__main__":
    sys.exit(main())
