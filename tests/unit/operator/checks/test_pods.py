"""Pod statuses as Kubernetes writes them, and what they mean for people."""

from __future__ import annotations

from typing import Any

from swerl_operator.checks.pods import pod_problem
from swerl_operator.checks.preflight import read_preflight
from swerl_operator.jobs.manifests import attempt_preflight

from tests.unit.operator.conftest import MakeAttempt


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo-1-head"}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "ray-head", "image": "trainer:1", "state": {"waiting": {"reason": reason, "message": message}}}


def test_image_that_cannot_be_pulled_is_reported() -> None:
    problem = pod_problem([pod(), pod(containerStatuses=[waiting("ImagePullBackOff", "not found")])])
    assert problem is not None and problem.reason == "ImagePullFailed"
    assert "trainer:1" in problem.message and "not found" in problem.message


def test_failed_copy_is_reported_with_source_and_log_command() -> None:
    state = {"terminated": {"exitCode": 1}}
    problem = pod_problem([pod(initContainerStatuses=[{"name": "copy-tasks", "image": "data:1", "state": state}])])
    assert problem is not None and problem.reason == "SourceCopyFailed"
    assert "kubectl logs demo-1-head -c copy-tasks" in problem.message


def test_unschedulable_pod_is_reported_with_the_schedulers_message() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    problem = pod_problem([pod(conditions=[condition])])
    assert problem is not None and problem.reason == "PodUnschedulable" and "0/1 nodes" in problem.message


def test_starting_container_is_no_problem() -> None:
    assert pod_problem([pod(containerStatuses=[waiting("ContainerCreating")])]) is None


def test_preflight_checks_each_images_paths(make_attempt: MakeAttempt) -> None:
    containers = {c["name"]: c for c in attempt_preflight(make_attempt())["spec"]["containers"]}
    assert containers["model"]["command"][-1] == "/data/model"
    assert containers["trainer"]["command"][-1] == "/preflight/tasks/train"


def test_preflight_distinguishes_a_missing_path_from_a_changed_job(make_attempt: MakeAttempt) -> None:
    manifest = attempt_preflight(make_attempt())
    ended = {"terminated": {"exitCode": 1, "message": "path /data/model does not exist\n"}}
    entry = {"name": "model", "image": "data:1", "state": ended}
    failed = read_preflight(manifest | {"status": {"phase": "Failed", "containerStatuses": [entry]}}, manifest)
    assert failed.state == "failed" and failed.problem is not None
    assert "path /data/model does not exist" in failed.problem.message
    changed = attempt_preflight(make_attempt(trainer={"image": "trainer:2"}))
    assert read_preflight(manifest, changed).state == "outdated"
    assert read_preflight(manifest | {"status": {"phase": "Succeeded"}}, manifest).state == "passed"
