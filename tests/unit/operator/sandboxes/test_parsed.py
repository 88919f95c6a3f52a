"""Pods are read as they are, whatever the API server leaves out."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_operator.sandboxes.parsed import PodStage, ordinal_of, owner_uid, parse_group, parse_pod
from swerl_operator.times import format_time, parse_time

BASE: dict[str, Any] = {"name": "swesb-a-b-3", "namespace": "n", "uid": "u", "resourceVersion": "7"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def read(status: dict[str, Any], **meta: Any) -> tuple[PodStage, str]:
    pod = parse_pod({"metadata": BASE | meta, "status": status})
    assert pod is not None and pod.ordinal == 3 and pod.version == 7
    return pod.stage, pod.reason


def terminated(reason: str, code: int = 137) -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return {"phase": "Failed", "containerStatuses": [{"name": "sandbox", "state": state}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, (PodStage.WAITING, "")),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
            (PodStage.WAITING, "Unschedulable"),
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            (PodStage.WAITING, "SchedulingGated"),
        ),
        ({"phase": "Pending", "conditions": [SCHEDULED]}, (PodStage.STARTING, "")),
        ({"phase": "Succeeded"}, (PodStage.TERMINATED, "Completed")),
        ({"phase": "Failed", "reason": "Evicted"}, (PodStage.TERMINATED, "Evicted")),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, (PodStage.TERMINATED, "LifetimeExceeded")),
        ({"phase": "Failed", "reason": "NodeShutdown"}, (PodStage.TERMINATED, "NodeLost")),
        ({"phase": "Failed", "reason": "OutOfcpu"}, (PodStage.TERMINATED, "PodRejected")),
        (terminated("OOMKilled"), (PodStage.TERMINATED, "OOMKilled")),
        (terminated("Error", 1), (PodStage.TERMINATED, "ContainerExited")),
        (
            {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}],
            },
            (PodStage.TERMINATED, "NodeLost"),
        ),
        (
            {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            },
            (PodStage.TERMINATED, "Preempted"),
        ),
        ({"phase": "Failed"}, (PodStage.TERMINATED, "PodLost")),
    ],
)
def test_status_has_one_stage_and_reason(status: dict[str, Any], expected: tuple[PodStage, str]) -> None:
    assert read(status) == expected


SIDECAR: dict[str, Any] = {"name": "istio-proxy", "ready": False, "state": {"running": {}}}
CRASHING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
INITIALIZING = {"name": "sandbox", "state": {"waiting": {"reason": "PodInitializing"}}}
RUNNING = {"name": "sandbox", "ready": True, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ({"containerStatuses": [SIDECAR, RUNNING]}, "its readiness probe does not pass"),
        ({"containerStatuses": [SIDECAR | {"state": CRASHING}, RUNNING]}, "CrashLoopBackOff: back-off 10s"),
        (
            {
                "containerStatuses": [
                    SIDECAR | {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}},
                    RUNNING,
                ]
            },
            "Completed, exit code 0",
        ),
        (
            {"initContainerStatuses": [SIDECAR], "containerStatuses": [INITIALIZING]},
            "its readiness probe does not pass",
        ),
    ],
)
def test_sidecar_that_is_not_ready_is_named(statuses: dict[str, Any], words: str) -> None:
    pod = parsed({"phase": "Running", "conditions": [SCHEDULED], **statuses})
    assert (pod.stage, pod.reason) == (PodStage.STARTING, "SidecarNotReady")
    assert pod.message == f"container istio-proxy, which is not ours, is not ready: {words}"


def test_image_of_the_sandbox_counts_before_a_sidecar() -> None:
    pulling = {"name": "sandbox", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    status = {"phase": "Pending", "conditions": [SCHEDULED], "containerStatuses": [SIDECAR, pulling]}
    assert read(status) == (PodStage.STARTING, "ErrImagePull")


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ({"reason": "OOMKilled", "exitCode": 137}, "OOMKilled"),
        ({"reason": "Error", "exitCode": 1}, "ContainerExited"),
        ({"reason": "Completed", "exitCode": 0}, "Completed"),
    ],
)
def test_sandbox_that_ended_beside_a_running_sidecar_has_ended(ended: dict[str, Any], reason: str) -> None:
    statuses = [SIDECAR | {"ready": True}, {"name": "sandbox", "ready": False, "state": {"terminated": ended}}]
    pod = parsed({"phase": "Running", "conditions": [SCHEDULED], "containerStatuses": statuses})
    assert (pod.stage, pod.reason, pod.running) == (PodStage.TERMINATED, reason, False)


def test_pod_deleted_by_its_client_is_not_lost() -> None:
    deleting = {"deletionTimestamp": format_time(5.0)}
    assert read({"phase": "Running", "conditions": [SCHEDULED]}, **deleting)[0] is PodStage.TERMINATING
    assert read(terminated("Error"), **deleting) == (PodStage.TERMINATED, "Completed")


def parsed(status: dict[str, Any], **body: Any) -> Any:
    pod = parse_pod({"metadata": BASE | body.pop("meta", {}), "status": status, **body})
    assert pod is not None
    return pod


def test_gate_is_read_before_the_scheduler_reports_it() -> None:
    gated = parsed({}, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})
    assert (gated.stage, gated.reason) == (PodStage.WAITING, "SchedulingGated")
    assert gated.message == "kueue.x-k8s.io/admission"


DELETED = {"deletionTimestamp": format_time(5.0)}


@pytest.mark.parametrize(
    ("conditions", "grace", "expected_reason"),
    [
        ([], 0, ""),
        ([], 1, "PodDeleted"),
        ([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}], 1, "Evicted"),
        ([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}], 1, "Preempted"),
        ([{"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted"}], 1, "Preempted"),
        ([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}], 0, "NodeLost"),
    ],
)
def test_disruption_is_reported_even_if_the_process_exits_with_0(
    conditions: list[dict[str, Any]], grace: int, expected_reason: str
) -> None:
    meta = DELETED | {"deletionGracePeriodSeconds": grace}
    assert parsed({"phase": "Running", "conditions": conditions}, meta=meta).disruption == expected_reason
    done = parsed({"phase": "Succeeded", "conditions": conditions}, meta=meta)
    assert (done.reason, done.lost) == (expected_reason or "Completed", bool(expected_reason))


@pytest.mark.parametrize(
    ("conditions", "grace", "reason"),
    [
        ([], 0, "Completed"),
        ([], 1, "PodDeleted"),
        ([{"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted"}], 1, "Preempted"),
    ],
)
def test_pod_deleted_before_it_has_a_node_ends_with_the_deletions_reason(
    conditions: list[dict[str, Any]], grace: int, reason: str
) -> None:
    """The garbage collector of Pods marks it as failed without a word."""
    meta = DELETED | {"deletionGracePeriodSeconds": grace}
    assert parsed({"phase": "Failed", "conditions": conditions}, meta=meta, spec={}).reason == reason
    on_a_node = parsed({"phase": "Failed", "conditions": conditions}, meta=meta, spec={"nodeName": "n"})
    assert on_a_node.reason == "PodLost"


def test_names_and_owners_are_parsed() -> None:
    assert ordinal_of("swesb-x-12") == 12
    assert ordinal_of("swesb-x") is None
    assert parse_pod({"metadata": BASE | {"name": "other"}}) is None
    reference = {"kind": "SweSandbox", "uid": "g", "controller": True}
    assert (
        owner_uid({"metadata": {"ownerReferences": [{"kind": "Job", "uid": "j", "controller": True}, reference]}})
        == "g"
    )
    assert owner_uid({"metadata": {}}) is None


def test_invalid_spec_is_reported_not_raised() -> None:
    group = parse_group({"metadata": BASE, "spec": {"image": "i", "replicas": "many"}})
    assert "replicas" in group.spec_error
    assert group.spec.replicas == 0


def test_times_survive_a_round_trip() -> None:
    assert parse_time(format_time(1_700_000_000.0)) == 1_700_000_000.0
    assert parse_time("2026-01-01T00:00:00.250000Z") is not None
    assert parse_time(None) is None
