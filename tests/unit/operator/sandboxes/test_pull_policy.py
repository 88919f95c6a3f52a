"""A job's or an evaluation's pull policy reaches every Pod that is made from a task's image."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.cli import parse
from swerl_agent.cli.pod_options import sandbox_settings
from swerl_agent.grading.manifests import grading_job
from swerl_agent.grading.pods import PodState
from swerl_agent.sandbox.spec import group_spec
from swerl_api import API_VERSION, GradingSpec, SandboxSpec, SweEvalSpec, SweRLJobSpec
from swerl_api.images import PERMANENT_PULL_REASONS, PULL_PAUSES
from swerl_operator.sandboxes.manifests import sandbox_pod
from swerl_operator.sandboxes.parsed import parse_group
from swerl_operator.sandboxes.settings import SandboxSettings

CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
EVALUATION = {
    "model": {"endpoint": {"url": "http://router:30000", "tokenizer": CLAIM}},
    "tasks": {"source": CLAIM},
    "output": {"volume": CLAIM},
    "image": "trainer:1",
}
TRAINING = {
    "model": {"source": CLAIM},
    "tasks": {"source": CLAIM},
    "algorithm": {"steps": 1},
    "trainer": {"image": "trainer:1"},
    "rollout": {},
    "checkpoint": {"volume": CLAIM},
}
POLICIES = [({}, "IfNotPresent"), ({"imagePullPolicy": "Never"}, "Never")]


def sandbox_spec(kind: str, sandbox: dict[str, Any]) -> SandboxSpec:
    """The sandboxes that an object of the kind, or a command, asks for."""
    if kind == "SweRLJob":
        return SweRLJobSpec.model_validate(TRAINING | {"sandbox": sandbox}).sandbox
    if kind == "SweEval":
        return SweEvalSpec.model_validate(EVALUATION | {"sandbox": sandbox}).sandbox
    pull = ["--pull", "never"] if sandbox else []
    command = ["eval", "run", "tasks", "--output", "o", "--engine", "http://e", "--tokenizer", "t", *pull]
    return sandbox_settings(parse(command))


@pytest.mark.parametrize("kind", ["SweRLJob", "SweEval", "swerl eval run"])
@pytest.mark.parametrize(("sandbox", "policy"), POLICIES)
def test_sandbox_and_grading_pods_have_the_pull_policy(kind: str, sandbox: dict[str, Any], policy: str) -> None:
    built = sandbox_spec(kind, sandbox)
    spec = group_spec(built, image="task:1", task_id="t-1", workdir="/testbed", replicas=1, owner="lease").model_dump(
        by_alias=True
    )
    metadata = {"name": "g", "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": "1"}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    group = parse_group({"apiVersion": API_VERSION, "kind": "SweSandbox", "metadata": metadata, "spec": spec})
    (container,) = sandbox_pod(group, 0, SandboxSettings())["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("task:1", policy)
    job = grading_job("g", "task:1", ["base"], ["g"], settings=GradingSpec(), sandbox=built, labels={}, owners=[])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("task:1", policy)


def test_missing_image_with_policy_never_is_final() -> None:
    waiting = {"reason": "ErrImageNeverPull", "message": 'Container image "x" is not present with pull policy of Never'}
    pod = {
        "metadata": {"name": "p"},
        "status": {"containerStatuses": [{"name": "grading", "state": {"waiting": waiting}}]},
    }
    assert PodState.of(pod, deleted=False).reason in PERMANENT_PULL_REASONS - PULL_PAUSES
