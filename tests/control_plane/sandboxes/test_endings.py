"""Every real way to lose a sandbox: conditions and Events report the reason, and never twice."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

Body = dict[str, Any]
Reading = Callable[[Body, str], tuple[str, str, str]]
SLOT = f"test.swerl.dev/slot-{os.getpid()}"


def degraded(status: Body) -> bool:
    return any(c["type"] == "Degraded" for c in status.get("conditions", ()))


async def wait_until_one_is_lost(user: Any, reading: Reading, group: str, reason: str) -> str:
    """The message, once the group of two has lost one Pod for `reason` and continues with the other."""
    status = await user.until(lambda: user.status(group), degraded, 30)
    state, found, message = reading(status, "Degraded")
    assert (state, found) == ("True", reason), status
    assert (status["phase"], status["failed"]) == ("Ready", 1)
    assert f"1 of 2 Pods were lost: 1 {reason}" in message

    async def events() -> list[tuple[str, str]]:
        return [(event["type"], event["message"]) for event in await user.events(group) if event["reason"] == reason]

    assert await user.until(events, bool, 10) == [("Warning", message)]
    return message


async def ends_with_the_other(user: Any, reading: Reading, group: str, reason: str) -> None:
    """The client lets the other Pod go: the group ends well, and says what was lost."""
    for pod in await user.pods(group):
        await user.release(pod)
    status = await user.phase(group, "Finished", 30)
    assert (status["finished"], status["failed"]) == (1, 1)
    assert f"lost: 1 {reason}" in reading(status, "Finished")[2]
    await user.delete(group)


async def test_pod_deleted_by_hand_is_lost_even_if_its_process_exits_with_0(user: Any, reading: Reading) -> None:
    await user.declare("by-hand", replicas=2)
    await user.phase("by-hand", "Ready")
    await user.api.delete("v1", "pods", user.namespace, "swesb-by-hand-1")  # with its grace period, as kubectl does
    message = await wait_until_one_is_lost(user, reading, "by-hand", "PodDeleted")
    assert "swesb-by-hand-1" in message and "kubectl delete" in message
    await ends_with_the_other(user, reading, "by-hand", "PodDeleted")


async def test_evicted_pod_is_lost(user: Any, reading: Reading) -> None:
    await user.declare("drained", replicas=2)
    await user.phase("drained", "Ready")
    name = "swesb-drained-0"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": user.namespace}}
    await user.api.request("POST", f"/api/v1/namespaces/{user.namespace}/pods/{name}/eviction", body=body)
    assert name in await wait_until_one_is_lost(user, reading, "drained", "Evicted")
    await ends_with_the_other(user, reading, "drained", "Evicted")


@pytest.fixture
async def slots(user: Any) -> AsyncIterator[None]:
    """Two units of a resource that only this test requests, so that no other Pod is preempted."""
    nodes = await user.api.list("v1", "nodes", None)
    name, pointer = nodes[0]["metadata"]["name"], "/status/capacity/" + SLOT.replace("/", "~1")

    async def change(*steps: Body) -> None:
        await user.api.request(
            "PATCH", f"/api/v1/nodes/{name}/status", body=list(steps), content_type="application/json-patch+json"
        )

    await change({"op": "add", "path": pointer, "value": "2"})
    yield
    await change({"op": "remove", "path": pointer})


@pytest.fixture
async def high_priority_class(user: Any) -> AsyncIterator[str]:
    """A PriorityClass above the sandboxes'."""
    name = f"urgent-{os.getpid()}"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000}
    await user.api.create("priorityclasses", body)
    yield name
    await user.api.delete("scheduling.k8s.io/v1", "priorityclasses", None, name)


async def test_preempted_pod_is_lost(user: Any, reading: Reading, slots: None, high_priority_class: str) -> None:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi", SLOT: "1"}, "limits": {"memory": "256Mi", SLOT: "1"}}
    await user.declare("outbid", replicas=2, resources=resources)
    await user.phase("outbid", "Ready")
    pods = await user.pods("outbid")
    container = next(iter(pods.values()))["spec"]["containers"][0]
    preemptor = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rival", "namespace": user.namespace},
        "spec": {
            "priorityClassName": high_priority_class,
            "terminationGracePeriodSeconds": 0,
            "containers": [{name: container[name] for name in ("name", "image", "command", "resources")}],
        },
    }
    await user.api.create("pods", preemptor)
    assert "preempt" in await wait_until_one_is_lost(user, reading, "outbid", "Preempted")
    await user.api.delete("v1", "pods", user.namespace, "rival", grace_seconds=0)
    await ends_with_the_other(user, reading, "outbid", "Preempted")


async def test_process_killed_for_memory_is_reported_with_the_limit(user: Any, reading: Reading) -> None:
    limits = {"cpu": "1", "memory": "32Mi"}
    allocate_forever = ["sh", "-c", "sleep 1; a=x; while :; do a=$a$a; done"]
    await user.declare(
        "hungry", command=allocate_forever, resources={"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": limits}
    )
    status = await user.until(lambda: user.status("hungry"), lambda s: s.get("phase") == "Failed", 60)
    state, reason, message = reading(status, "Finished")
    assert (state, reason) == ("True", "OOMKilled") and "resources.limits.memory" in message
    events = await user.until(lambda: user.events("hungry"), bool, 10)
    assert [event["reason"] for event in events] == ["OOMKilled"], json.dumps(events)
    await user.delete("hungry")


async def test_waiting_for_a_node_is_an_event_too(user: Any) -> None:
    await user.declare("no-place", nodeSelector={"no-such": "node"})
    events = await user.until(lambda: user.events("no-place"), bool, 40)
    assert [(event["type"], event["reason"]) for event in events] == [("Warning", "Unschedulable")]
    await asyncio.sleep(2)
    assert len(await user.pods("no-place")) == 1
    await user.delete("no-place")
