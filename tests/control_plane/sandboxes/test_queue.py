"""Pods that a queue holds by scheduling gates: waited for, never deleted, their group admitted once they are free.

The gates are real, put on the Pods by the operator's own overrides as Kueue's webhook puts them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from swerl_api.pod_metadata import MESH_ANNOTATIONS

Body = dict[str, Any]
Reading = Callable[[Body, str], tuple[str, str, str]]
GATE = "queue.test/admission"
QUEUE = {"kueue.x-k8s.io/queue-name": "team-a", "kueue.x-k8s.io/priority-class": "low"}


@pytest.fixture(scope="module")
def operator_options() -> dict[str, str]:
    return {"sandbox_pod_overrides": json.dumps({"schedulingGates": [{"name": GATE}]})}


async def remove_gates(user: Any, group: str) -> None:
    """Lift the gates, as a queue with room does."""
    for name in await user.pods(group):
        await user.api.patch("v1", "pods", user.namespace, name, {"spec": {"schedulingGates": None}})


async def test_gated_group_is_admitted_when_the_gates_are_removed(user: Any, operator: Any, reading: Reading) -> None:
    await user.declare("held", labels=QUEUE, replicas=3, maxConcurrent=4)
    pods = await user.until(lambda: user.pods("held"), lambda pods: len(pods) == 3, 20)
    uid = (await user.sandbox("held"))["metadata"]["uid"]
    for pod in pods.values():
        labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        assert QUEUE.items() <= labels.items() and labels["kueue.x-k8s.io/pod-group-name"] == f"swesb-held-{uid[:8]}"
        assert annotations == MESH_ANNOTATIONS | {
            "kueue.x-k8s.io/pod-group-total-count": "3",
            "kueue.x-k8s.io/retriable-in-group": "false",
        }
    await user.declare("behind", replicas=2, maxConcurrent=4)
    status = await user.until(lambda: user.status("held"), lambda status: bool(status), 20)
    assert status["phase"] == "Pending"
    state, reason, message = reading(status, "Admitted")
    assert (state, reason) == ("False", "SchedulingGated") and GATE in message and "team-a" in message
    assert reading(status, "Ready")[:2] == ("False", "SchedulingGated")
    events = await user.until(lambda: user.events("held"), bool, 10)
    assert [(event["type"], event["reason"]) for event in events] == [("Normal", "SchedulingGated")]
    assert operator.metric('swerl_sandboxes{phase="waiting"}') == 3

    uids = {name: pod["metadata"]["uid"] for name, pod in pods.items()}
    await asyncio.sleep(5)
    assert {name: pod["metadata"]["uid"] for name, pod in (await user.pods("held")).items()} == uids
    assert not await user.pods("behind"), "what waits in a queue has its place within the limit"

    await remove_gates(user, "held")
    status = await user.phase("held", "Ready")
    assert reading(status, "Admitted")[:2] == ("True", "Admitted")
    assert {name: pod["metadata"]["uid"] for name, pod in (await user.pods("held")).items()} == uids
    await user.delete("held")
    await user.until(lambda: user.pods("behind"), lambda pods: len(pods) == 2, 30)
    await user.delete("behind")
