"""Groups in a queue of the real Kueue: gated, admitted and taken back whole, and nothing of them stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from swerl_agent.sandbox import Evicted, Sandbox
from swerl_agent.sandbox.claim import ClaimOptions
from swerl_kube import KubeClient

from tests.control_plane.sandboxes.conftest import IMAGE, condition
from tests.kueue.installation import scale
from tests.kueue.queue import API, GROUP_LABEL, HIGH, IN_QUEUE, LOCAL_QUEUE, LOW, QUOTA, Body, Queue

RESOURCES = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
FULL = "insufficient unused quota for pods"  # in Kueue's words
WAVE = 8  # Pods that the operator lets start at once before it knows the nodes


def gated_for(reason: str, text: str = "") -> Callable[[Body], bool]:
    """Whether a status gives this reason, and these words, for not being admitted."""

    def matches(status: Body) -> bool:
        if not status.get("conditions"):
            return False
        state, found_reason, message = condition(status, "Admitted")
        return (state, found_reason) == ("False", reason) and text in message

    return matches


async def gated(queue: Queue, group: str, text: str = FULL) -> Body:
    """The group's status once the queue holds it for this reason."""
    status: Body = await queue.until(lambda: queue.status(group), gated_for("SchedulingGated", text), 60)
    assert LOCAL_QUEUE in condition(status, "Admitted")[2] and not await queue.placed(group)
    return status


def options(queue: Queue, client: KubeClient, name: str, labels: dict[str, str]) -> ClaimOptions:
    return {
        "client": client,
        "namespace": queue.namespace,
        "name": name,
        "labels": labels,
        "resources": RESOURCES,
        "timeout": 180,
    }


async def test_group_waits_gated_while_the_quota_is_taken_and_is_admitted_whole(
    queue: Queue, client: KubeClient
) -> None:
    await queue.declare("holder", labels=IN_QUEUE, replicas=2)
    await queue.phase("holder", "Ready")
    await queue.until_admitted_pods(2)

    async def work() -> list[str]:
        async with Sandbox.claim(IMAGE, 4, **options(queue, client, "four", IN_QUEUE)) as group:
            await queue.until_admitted_pods(4)
            return [(await sandbox.run("echo $((6 * 7))")).output.strip() for sandbox in group]

    working = asyncio.create_task(work())
    status = await gated(queue, "four")
    assert condition(status, "Ready")[:2] == ("False", "SchedulingGated")
    pods = {name: pod["metadata"]["uid"] for name, pod in (await queue.pods("four")).items()}
    assert len(pods) == 4
    await asyncio.sleep(5)
    assert not await queue.placed("four") and not working.done()

    await queue.delete("holder")
    status = await queue.phase("four", "Ready")
    assert condition(status, "Admitted")[:2] == ("True", "Admitted")
    assert {name: pod["metadata"]["uid"] for name, pod in (await queue.pods("four")).items()} == pods
    assert await working == ["42"] * 4
    await queue.empty()


async def test_group_above_the_quota_gets_no_node_and_blocks_no_other(queue: Queue) -> None:
    size = WAVE + QUOTA
    await queue.declare("large", labels=IN_QUEUE, replicas=size)
    await gated(queue, "large", "maximum capacity")
    assert len(await queue.pods("large")) == size, "Kueue evaluates a group once it is complete"

    await queue.declare("small", labels=IN_QUEUE, replicas=QUOTA)
    await queue.phase("small", "Ready")
    await asyncio.sleep(10)
    assert not await queue.placed("large") and await queue.admitted_pods() == QUOTA

    await queue.delete("large")
    await queue.delete("small")
    await queue.empty()


async def test_preempted_group_ends_as_preempted(queue: Queue, client: KubeClient) -> None:
    async with Sandbox.claim(IMAGE, 4, **options(queue, client, "low", LOW)) as group:
        commands = [asyncio.create_task(sandbox.run("sleep 300", timeout=310)) for sandbox in group]
        await queue.declare("urgent", labels=HIGH, replicas=3)
        for command in commands:
            with pytest.raises(Evicted, match="Preempted to accommodate"):
                await command
        status = await queue.phase("low", "Failed")
    state, reason, message = condition(status, "Finished")
    assert (state, reason) == ("True", "Preempted") and "Preempted to accommodate a workload" in message, message
    assert condition(status, "Degraded")[1] == "Preempted" and status["failed"] == 4

    await queue.phase("urgent", "Ready")
    await queue.until_admitted_pods(3)
    await queue.delete("urgent")
    await queue.empty()


async def test_group_whose_workload_is_deleted_ends_as_preempted(queue: Queue) -> None:
    await queue.declare("pair", labels=IN_QUEUE, replicas=2)
    await queue.phase("pair", "Ready")
    [workload] = await queue.workloads()
    await queue.api.delete(API, "workloads", queue.namespace, workload)
    status = await queue.phase("pair", "Failed")
    _, reason, message = condition(status, "Finished")
    assert reason == "Preempted" and "Workload is deleted" in message, message
    await queue.delete("pair")
    await queue.empty()


async def test_slot_of_a_released_sandbox_is_reused(queue: Queue) -> None:
    await queue.declare("four", labels=IN_QUEUE, replicas=4)
    await queue.phase("four", "Ready")
    await queue.declare("two", labels=IN_QUEUE, replicas=2)
    await gated(queue, "two")

    await queue.release("swesb-four-0")
    await queue.phase("two", "Ready")
    await queue.until_admitted_pods(5)
    pods = await queue.pods("four")
    assert [pods[f"swesb-four-{i}"]["status"]["phase"] for i in (1, 2, 3)] == ["Running"] * 3
    status = await queue.until(lambda: queue.status("four"), lambda s: s["finished"] == 1, 30)
    assert status["phase"] == "Ready" and status["failed"] == 0
    for ordinal in (1, 2, 3):
        await queue.release(f"swesb-four-{ordinal}")
    await queue.until_admitted_pods(2)
    await queue.wait_deleted("four")
    await queue.delete("four")
    await queue.delete("two")
    await queue.empty()


async def test_sandbox_that_is_released_while_it_is_gated_is_not_lost(queue: Queue) -> None:
    await queue.declare("holder", labels=IN_QUEUE, replicas=2)
    await queue.phase("holder", "Ready")
    await queue.declare("four", labels=IN_QUEUE, replicas=4)
    await gated(queue, "four")
    await queue.release("swesb-four-3")
    await queue.delete("holder")
    status = await queue.phase("four", "Ready")
    assert len(await queue.placed("four")) == 3 and status["failed"] == 0
    await queue.delete("four")
    await queue.empty()


async def test_name_is_free_again_at_once(queue: Queue) -> None:
    for _ in range(3):
        group = await queue.declare("again", labels=IN_QUEUE, replicas=2)
        await queue.phase("again", "Ready")
        assert (await queue.sandbox("again") or group)["metadata"]["uid"] == group["metadata"]["uid"]
        await queue.delete("again")
    await queue.wait_deleted("again")
    await queue.empty()


async def test_single_sandbox_needs_no_group_and_one_without_queue_no_kueue(queue: Queue) -> None:
    await queue.declare("full", labels=IN_QUEUE, replicas=QUOTA)
    await queue.phase("full", "Ready")
    await queue.declare("free", replicas=2)
    await queue.phase("free", "Ready")
    assert not [pod for pod in (await queue.pods("free")).values() if pod["metadata"].get("finalizers")]

    await queue.declare("single", labels=IN_QUEUE)
    await gated(queue, "single")
    pods: dict[str, Any] = await queue.pods("single")
    assert [GROUP_LABEL in pod["metadata"]["labels"] for pod in pods.values()] == [False]
    await queue.delete("full")
    await queue.phase("single", "Ready")
    await queue.until_admitted_pods(1)
    await queue.delete("single")
    await queue.delete("free")
    await queue.empty()


async def test_stopped_kueue_only_delays_groups(queue: Queue, kubeconfig: str) -> None:
    await queue.declare("before", labels=IN_QUEUE, replicas=2)
    await queue.phase("before", "Ready")
    scale(kubeconfig, 0)
    try:
        await queue.delete("before")
        await queue.declare("during", labels=IN_QUEUE, replicas=4)
        await asyncio.sleep(15)
        assert not await queue.pods("during") and (await queue.status("during")).get("phase") != "Failed"
    finally:
        scale(kubeconfig, 1)
    await queue.phase("during", "Ready", 150)
    await queue.wait_deleted("before")
    await queue.delete("during")
    await queue.empty()
