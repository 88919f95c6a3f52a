"""Why a job does not train, in words, from its conditions, its Pods and Events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from swerl_agent.jobs import description_lines, job_row
from swerl_agent.jobs.describing import description
from swerl_agent.jobs.pods import pod_words, sandbox_states
from swerl_agent.jobs.reasons import causes_of

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
EARLIER = "2026-05-01T11:50:00Z"


def condition(type: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": EARLIER}


def job(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    metadata = {"name": "q", "namespace": "n", "generation": 1, "creationTimestamp": EARLIER}
    return {
        "metadata": metadata,
        "spec": {"retries": 3},
        "status": {"observedGeneration": 1, "attempt": 1, "conditions": list(conditions), **status},
    }


def container(name: str, **state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": name, "state": state}]}


def words(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause.reason, cause.message) for cause in causes_of(body)]


def test_job_that_no_operator_saw() -> None:
    body = job() | {"status": {}}
    [(reason, message)] = words(body)
    assert reason == "NotSeenByOperator" and "swerl doctor -n n" in message


def test_blocked_job_names_the_condition_that_blocks_it() -> None:
    text = "PersistentVolumeClaim 'runs' named by spec.checkpoint.volume does not exist; create it there"
    body = job(condition("Validated", "False", "VolumeClaimMissing", text), phase="Blocked")
    assert words(body) == [("VolumeClaimMissing", text)]
    assert job_row(body, NOW).columns()[-1] == "VolumeClaimMissing"


def test_reason_without_a_message_has_words() -> None:
    body = job(condition("ClusterReady", "False", "WaitingForQueue"), phase="Starting")
    assert words(body) == [("WaitingForQueue", "Kueue has not admitted the RayCluster: its queue has no room yet")]


def test_new_attempt_says_why_the_one_before_failed() -> None:
    body = job(
        condition("ClusterReady", "False", "ClusterStarting", "1 of 3 Ray Pods are ready"),
        condition("Training", "False", "HeadLost", "attempt 1: the Ray head Pod is gone"),
        phase="Retrying",
        attempt=2,
        failures=1,
    )
    assert [reason for reason, _ in words(body)] == ["ClusterStarting", "HeadLost"]
    assert words(body)[1][1] == "the attempt before failed: attempt 1: the Ray head Pod is gone"


def test_suspended_and_failed_jobs_say_what_to_do() -> None:
    suspended = job(condition("Suspended", "True", "Suspended"), phase="Suspended")
    assert "`swerl resume q`" in words(suspended)[0][1]
    failed = job(condition("Failed", "True", "DriverFailed", "attempt 1: out of memory"), phase="Failed")
    [(reason, message)] = words(failed)
    assert reason == "DriverFailed" and message.startswith("attempt 1: out of memory; `swerl logs q` shows")
    assert "`swerl retry q` starts another attempt" in message


def test_training_job_has_only_warnings() -> None:
    body = job(
        condition("ClusterReady", "True", "ClusterRunning"),
        condition("Training", "True", "DriverRunning"),
        condition("Learning", "False", "NoSignal", "the last 3 steps changed no weight"),
        phase="Training",
    )
    [cause] = causes_of(body)
    assert cause.warning and cause.reason == "NoSignal"
    assert causes_of(job(phase="Complete")) == []


def test_change_that_the_operator_has_not_seen_is_a_warning() -> None:
    body = job(condition("Training", "True", "DriverRunning"), phase="Training")
    body["metadata"]["generation"] = 2
    assert causes_of(body)[0].reason == "NotSeenByOperator"


@pytest.mark.parametrize(
    ("status", "warning", "expected"),
    [
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: no GPU"}]},
            "",
            "waits for a node: 0/3 nodes: no GPU",
        ),
        (
            container("ray-head", waiting={"reason": "ErrImagePull", "message": "401"}),
            "",
            "ray-head: ErrImagePull: 401",
        ),
        (
            container("ray-head", waiting={"reason": "ContainerCreating"}),
            "MountVolume failed: claim runs is not bound",
            "MountVolume failed: claim runs is not bound",
        ),
        (
            container("ray-train", terminated={"exitCode": 137, "reason": "OOMKilled"}),
            "",
            "ray-train ended with exit code 137: OOMKilled",
        ),
        (container("ray-train", running={}), "", "ray-train runs and is not ready yet"),
        ({"phase": "Pending"}, "", "pulls its image or starts"),
    ],
)
def test_pod_says_why_it_is_not_ready(status: dict[str, Any], warning: str, expected: str) -> None:
    assert pod_words({"metadata": {"name": "p"}, "status": status}, warning) == expected


def test_sandboxes_are_counted_by_state_and_reason() -> None:
    waits = condition("Admitted", "False", "WaitingForCapacity", "maxConcurrent 8 is reached")
    groups = [
        {"spec": {"replicas": 8}, "status": {"replicas": 8, "ready": 5, "finished": 2, "failed": 1}},
        {"spec": {"replicas": 8}, "status": {"conditions": [waits]}},
    ]
    found = sandbox_states(groups)
    assert found.pods == {"waiting": 8, "starting": 0, "ready": 5, "lost": 1}
    assert found.waits == [("WaitingForCapacity", 1, "maxConcurrent 8 is reached")]


def test_description_has_the_events_of_the_job_and_of_its_ray_pods() -> None:
    body = job(condition("ClusterReady", "False", "PodUnschedulable", "no node"), phase="Blocked")
    pods = [{"metadata": {"name": "q-1-head", "labels": {"swerl.dev/role": "driver"}}, "status": {"phase": "Pending"}}]
    event = {
        "metadata": {"creationTimestamp": EARLIER},
        "type": "Warning",
        "involvedObject": {"kind": "Pod", "name": "q-1-head"},
        "message": "about q-1-head",
    }
    lines = description_lines(description(body, pods, [], [event], NOW))
    assert lines[0] == "q in n: Blocked, attempt 1"
    assert "  because: no node (for 10m) [PodUnschedulable]" in lines
    assert "  Pod q-1-head (driver): about q-1-head" in lines
    assert lines[-1].endswith("Warning  Pod/q-1-head: about q-1-head")
