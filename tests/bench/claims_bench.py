"""Groups and claims on a real node: a group of 64 against 64 bare Pods, claims ahead of time against a warm pool's.

Groups and bare Pods are of the same manifest and take turns. Ours are claimed as a driver does it: the next group is
declared and prepared while commands run in the present one. The peer is the agent-sandbox controller with its warm
pool, claim by claim, until it says that a sandbox is there, and a one-shot `stream()` for the first command, as it has
no exec of its own. Blocks of claims take turns, too. QUICK=1 takes fewer of each.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swerl_agent.sandbox.group import SandboxGroup
from swerl_agent.sandbox.pod import ready
from swerl_api.names import JOB_LABEL
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import KubeClient
from swerl_operator.sandboxes.manifests import sandbox_pod
from swerl_operator.sandboxes.parsed import parse_group
from swerl_operator.sandboxes.settings import SandboxSettings

from cluster.layout import swerl_home
from demo.cluster import DemoCluster
from tests.bench import api_writes
from tests.bench.agent_sandbox import WarmPool, controller
from tests.bench.exec_peers.clients import KubernetesPython, PodTargets
from tests.bench.figures import QUICK, Figure, conclude
from tests.bench.served_namespace import served_namespace
from tests.control_plane.operator_process import Operator

IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
SIZE = 64  # of the big group; a node takes 250 Pods
ROUNDS = 1 if QUICK else 5  # one by one they differ by a tenth
BLOCKS = 2 if QUICK else 3
GROUPS = 3 if QUICK else 4  # claimed one after the other, in a block
REPLICAS = 4
CLAIMS = 4 if QUICK else 8  # of the peer, in a block
POOL = 8
WORK_SECONDS = 6.0  # commands run in a group this long before the next is claimed
SETTLE_SECONDS = 5.0  # the node's end of a teardown
PATIENCE = 600.0
RELIST_SECONDS = 10.0
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
    group = parse_group(
        group_body(namespace, name, SIZE) | {"metadata": {"namespace": namespace, "name": name, "uid": ""}}
    )
    pods = [sandbox_pod(group, ordinal, SandboxSettings()) for ordinal in range(SIZE)]
    for pod in pods:
        pod["metadata"].pop("ownerReferences")
    return pods


class StartTimer:
    """Starts of many Pods at once, measured."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def group(self, name: str) -> float:
        """Seconds until a group of SIZE says Ready."""
        started = time.monotonic()
        await self._client.create(SANDBOXES, group_body(self._namespace, name, SIZE))
        await self._until(API, SANDBOXES, lambda seen: seen.get(name, {}).get("status", {}).get("phase") == "Ready")
        took = time.monotonic() - started
        await self._client.delete(API, SANDBOXES, self._namespace, name)
        await self._empty()
        return took

    async def bare(self, name: str) -> float:
        """Seconds until SIZE Pods, created at once, are all Ready."""
        pods, started = bare_pods(self._namespace, name), time.monotonic()
        await asyncio.gather(*(self._client.create("pods", pod, namespace=self._namespace) for pod in pods))
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
        async with asyncio.timeout(PATIENCE):
            while not await self._appeared(api, resource, done):
                pass

    async def _appeared(self, api: str, resource: str, done: Callable[[dict[str, Json]], bool]) -> bool:
        """The same for RELIST_SECONDS: what goes between this list and the watch's own is missing in the next."""
        listing = await self._client.list(api, resource, self._namespace)
        seen = {item["metadata"]["name"]: item for item in listing}
        if done(seen):
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(RELIST_SECONDS):
                async for event in self._client.watch(api, resource, self._namespace):
                    name = event.object["metadata"]["name"]
                    if event.type == "DELETED":
                        seen.pop(name, None)
                    else:
                        seen[name] = event.object
                    if done(seen):
                        return True
        return False


@dataclass
class ClaimTimes:
    """Of one side: times in milliseconds."""

    waits: list[float] = field(default_factory=list)  # until a sandbox that was prepared is there
    answers: list[float] = field(default_factory=list)  # until the first command's answer
    writes: api_writes.Writes = field(default_factory=api_writes.Writes)  # with those that prepare others
    sandboxes: int = 0  # that these writes are for

    @property
    def writes_each(self) -> float:
        return sum(self.writes.values()) / self.sandboxes

    @asynccontextmanager
    async def counted(self, client: KubeClient, sandboxes: int) -> AsyncIterator[None]:
        """Adds what is written meanwhile, and what of it is left to do afterwards."""
        before = await api_writes.count(client)
        yield
        await asyncio.sleep(SETTLE_SECONDS)
        self.writes.update(api_writes.writes_between(before, await api_writes.count(client)))
        self.sandboxes += sandboxes


async def claim_ahead(client: KubeClient, namespace: str, block: int, claims: ClaimTimes) -> None:
    """Groups of which each is declared and prepared while commands run in the one before."""
    spec = SweSandboxSpec.model_validate(group_body(namespace, "", REPLICAS)["spec"])

    async def declare(number: int) -> SandboxGroup:
        name = f"ahead-{block}-{number}"
        group = await SandboxGroup.declare(client, name=name, spec=spec, labels={JOB_LABEL: JOB}, namespace=namespace)
        group.prefetch()
        return group

    following = await declare(0)
    for number in range(GROUPS):
        group, following = following, await declare(number + 1)
        sessions = []
        for ordinal in range(REPLICAS):
            started = time.perf_counter()
            sessions.append(await group.claim(ordinal))
            claimed = time.perf_counter()
            await sessions[-1].run("true", timeout=60)
            if number:  # the first could not be prepared ahead
                claims.waits.append(1e3 * (claimed - started))
                claims.answers.append(1e3 * (time.perf_counter() - started))
        await asyncio.gather(*(session.run(f"sleep {WORK_SECONDS}", timeout=60) for session in sessions))
        for ordinal in range(REPLICAS):
            await group.release(ordinal)
        await group.delete()
    for ordinal in range(REPLICAS):
        await following.claim(ordinal)
        await following.release(ordinal)
    await following.delete()


async def claim_of_pool(pool: WarmPool, one_shot: KubernetesPython, block: int, claims: ClaimTimes) -> None:
    """The peer's: claim after claim on a full warm pool."""
    for number in range(CLAIMS):
        name = f"claim-{block}-{number}"
        wait, pod = await pool.claim(name)
        started = time.perf_counter()
        assert (await one_shot.run_in(pod, ["true"], 60)).exit_code == 0
        claims.waits.append(1e3 * wait)
        claims.answers.append(1e3 * (wait + time.perf_counter() - started))
        await pool.release(name)
        await pool.full()


async def claims(client: KubeClient, kubeconfig: str, namespace: str) -> tuple[ClaimTimes, ClaimTimes]:
    """Ours and the peer's, in blocks that take turns."""
    ours, theirs = ClaimTimes(), ClaimTimes()
    pool, one_shot = WarmPool(client, namespace, POOL), KubernetesPython(PodTargets(kubeconfig, namespace, (), ()))
    await pool.fill(
        {"name": "sandbox", "image": IMAGE, "command": ["sleep", "86400"], "resources": {"requests": AMOUNTS}}
    )
    await asyncio.sleep(SETTLE_SECONDS)
    for block in range(BLOCKS):
        async with ours.counted(client, (GROUPS + 1) * REPLICAS):
            await claim_ahead(client, namespace, block, ours)
        async with theirs.counted(client, CLAIMS):
            await claim_of_pool(pool, one_shot, block, theirs)
    await pool.drain()
    await one_shot.close()
    print(f"ours, writes per sandbox:\n{api_writes.table(ours.writes, ours.sandboxes)}")
    print(f"agent-sandbox, writes per claim:\n{api_writes.table(theirs.writes, theirs.sandboxes)}", flush=True)
    return ours, theirs


async def starts(client: KubeClient, namespace: str) -> tuple[list[float], list[float]]:
    """Seconds of groups and of bare Pods, in turns."""
    node, ours, theirs = StartTimer(client, namespace), [], []
    await node.bare("warm-up")
    for number in range(ROUNDS):
        ours.append(await node.group(f"group-{number}"))
        theirs.append(await node.bare(f"bare-{number}"))
        print(f"round {number}: group of {SIZE} {ours[-1]:.1f} s, bare Pods {theirs[-1]:.1f} s", flush=True)
    return ours, theirs


async def measure(cluster: DemoCluster, namespace: str, folder: Path) -> list[Figure]:
    """All figures; an operator serves `namespace`."""
    async with KubeClient.from_environment(str(cluster.kubeconfig)) as client:
        groups, bare = await starts(client, namespace)
        with controller(cluster, folder):
            ours, theirs = await claims(client, str(cluster.kubeconfig), namespace)
    median = statistics.median
    return [
        Figure(f"group_of_{SIZE}_ready_s", median(groups), READY_RATIO, peer=median(bare)),
        Figure("claim_ahead_p50_ms", median(ours.waits), CLAIM_MS),
        Figure("claim_against_warm_pool_ms", median(ours.waits), CLAIM_RATIO, peer=median(theirs.waits)),
        Figure("claim_and_first_command_ms", median(ours.answers), CLAIM_RATIO, peer=median(theirs.answers)),
        Figure("api_writes_per_sandbox", ours.writes_each, WRITES),
        Figure("api_writes_against_warm_pool", ours.writes_each, WRITES_RATIO, peer=theirs.writes_each),
    ]


async def _while_operator_runs(operator: Operator, work: Coroutine[Any, Any, list[Figure]]) -> list[Figure]:
    """What `work` found; raises RuntimeError at once where the operator ends before."""
    task = asyncio.create_task(work)
    while not (await asyncio.wait([task], timeout=1))[0]:
        if not operator.alive:
            task.cancel()
            await asyncio.wait([task])
            raise RuntimeError(f"the operator ended:\n{operator.log.read_text()[-2000:]}")
    return task.result()


def main() -> int:
    cluster, folder = DemoCluster.from_environment(), swerl_home() / "bench-claims"
    with served_namespace(cluster, "bench-claims", folder) as (namespace, operator):
        found = asyncio.run(_while_operator_runs(operator, measure(cluster, namespace, folder)))
    return conclude(found, folder / "figures.json")


if __name__ == "__main__":
    sys.exit(main())
