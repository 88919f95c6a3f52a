"""Sandboxes by node and state, in the operator's words."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.sandbox.by_node import STATES, pod_state, sandboxes_by_node
from swerl_operator.sandboxes.parsed import PodStage, parse_pod

Json = dict[str, Any]
SCHEDULED = {"type": "PodScheduled", "status": "True"}
READY = {"type": "Ready", "status": "True"}
ON_A_NODE = {"conditions": [SCHEDULED, {"type": "Ready", "status": "False"}]}
RUNNING = {"phase": "Running", "conditions": [SCHEDULED, READY]}


def pod(node: str = "node-1", *, deleted: bool = False, **status: Any) -> Json:
    metadata = {"name": "swesb-g-0", "namespace": "n", "uid": "u"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def group(size: int, **status: Any) -> Json:
    return {"metadata": {"name": "g"}, "spec": {"replicas": size}, "status": status}


PODS = {
    "not scheduled": (pod(""), "waiting"),
    "gated": ({**pod(""), "spec": {"schedulingGates": [{"name": "queue"}]}}, "waiting"),
    "pulls its image": (pod(phase="Pending", **ON_A_NODE), "starting"),
    "ready": (pod(**RUNNING), "ready"),
    "being deleted": (pod(deleted=True, **RUNNING), "terminating"),
    "failed": (pod(phase="Failed", reason="Evicted"), "terminated"),
    "failed, being deleted": (pod(deleted=True, phase="Failed"), "terminated"),
}


@pytest.mark.parametrize(("body", "state"), PODS.values(), ids=PODS.keys())
def test_state_is_that_of_the_operators_metric(body: Json, state: str) -> None:
    parsed = parse_pod(body)
    assert parsed is not None and pod_state(body) == parsed.stage.value == state


def test_states_are_those_of_the_operators_metric() -> None:
    assert set(STATES) == {stage.value for stage in PodStage} | {"pending"}


def test_sandboxes_are_counted_by_node_and_those_without_one_apart() -> None:
    pods = [pod("a", **RUNNING), pod("a", **RUNNING), pod("b", **ON_A_NODE), pod("")]
    groups = [group(8, replicas=4), group(2), group(3, phase="Failed"), group(1, replicas=2)]
    assert sandboxes_by_node(groups, pods) == {
        "a": {"ready": 2},
        "b": {"starting": 1},
        "": {"waiting": 1, "pending": 6},
    }
    assert sandboxes_by_node([], []) == {}
