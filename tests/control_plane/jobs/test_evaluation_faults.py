"""SweEvals that cannot begin, or not yet, say why; engines come and go with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.operator_process import Operator

from .conftest import IMAGE, Body, JobNamespace
from .evaluations import (
    KIND,
    TASKS,
    EngineInAPod,
    config_map,
    engine,
    evaluation,
    objects_of,
    repository,
    results,
    task,
    tasks,
    tokenizer,
)

__all__ = ["engine", "evaluation", "repository", "task", "tasks", "tokenizer"]


def test_all_missing_objects_are_reported_together_and_nothing_starts(
    kube: JobNamespace, operator: Operator, evaluation: Body
) -> None:
    spec = evaluation["spec"]
    spec["model"] = {"job": {"name": "no-job"}}
    spec["rollout"] = {"image": IMAGE}
    spec["tasks"]["source"] = {"configMap": {"name": "no-tasks"}}
    spec["output"] = {"volume": {"persistentVolumeClaim": {"claimName": "no-claim"}}}
    kube.apply(evaluation)
    name = evaluation["metadata"]["name"]
    found = kube.until_condition(name, "Validated", "JobMissing", kind=KIND)
    for message in ("'no-job' named by spec.model.job", "'no-tasks' named by spec.tasks.source", "'no-claim'"):
        assert message in found["message"]
    assert kube.status(name, KIND)["phase"] == "Blocked" and objects_of(kube, name) == []
    assert "JobMissing" in kube.kubectl("describe", KIND, name)


def test_job_without_checkpoint_is_waited_for(
    kube: JobNamespace, operator: Operator, job: Body, tasks: list[str], evaluation: Body
) -> None:
    job["spec"]["suspend"] = True
    kube.apply(job)
    evaluation["spec"]["model"] = {"job": {"name": job["metadata"]["name"]}}
    evaluation["spec"]["rollout"] = {"image": IMAGE}
    kube.apply(evaluation)
    found = kube.until_condition(evaluation["metadata"]["name"], "Validated", "NoCheckpoint", kind=KIND)
    assert "wait for its first" in found["message"]


def test_missing_key_is_reported_before_anything_starts(
    kube: JobNamespace, operator: Operator, tasks: list[str], evaluation: Body
) -> None:
    chat = {"url": "http://engine:1/v1", "api": "chat-completions", "model": "policy"}
    evaluation["spec"]["model"] = {"endpoint": chat | {"apiKeySecret": {"name": "no-such-secret", "key": "token"}}}
    evaluation["spec"]["image"] = IMAGE
    kube.apply(evaluation)
    name = evaluation["metadata"]["name"]
    found = kube.until_condition(name, "ImagesReady", "ContainerStartFailed", kind=KIND)
    assert '"no-such-secret" not found' in found["message"]
    assert not [job_name for job_name in kube.names("jobs") if name in job_name]


def test_wrong_input_fails_at_once_with_its_message(
    kube: JobNamespace, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"]["tasks"]["filter"] = "no-such-task"
    kube.apply(evaluation)
    name = evaluation["metadata"]["name"]
    found = kube.until_condition(name, "Failed", "ShardsFailed", 200, kind=KIND)
    assert "no task left" in found["message"]


def test_invalid_prompt_fails_the_evaluation_by_line_and_keeps_results(
    kube: JobNamespace, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    broken = "{% if output.timeout > 1 %}\n{{ output.output.nope }}\n{% endif %}"  # that of no output it is tried with
    templates = {
        "system_template": "system", "instance_template": "{{ task }}", "format_error_template": "again",
        "action_observation_template": broken,
    }  # fmt: skip
    config_map(kube, "broken-prompts", {"prompts.yaml": yaml.safe_dump({"agent": templates})})
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"]["agent"]["promptTemplates"] = {"configMap": {"name": "broken-prompts", "key": "prompts.yaml"}}
    kube.apply(evaluation)
    found = kube.until_condition(name, "Failed", "MergeFailed", 400, kind=KIND)
    assert f"a template ended all {TASKS} samples" in found["message"]
    assert "agent.action_observation_template does not render: UndefinedError" in found["message"]
    assert "in line 2: {{ output.output.nope }}" in found["message"]
    assert kube.status(name, KIND)["errors"] == TASKS
    lines = results(kube, name)
    assert [(line["exit_status"], line["valid"], line["n_steps"]) for line in lines] == [
        ("prompt_failed", False, 1)
    ] * TASKS
    output = Path("/tmp") / kube.namespace / name
    assert len(list(output.glob("shard-*/*/traj.json"))) == TASKS
    assert json.loads((output / "summary.json").read_text())["exit_statuses"] == {"prompt_failed": TASKS}


def test_engines_start_and_end_with_the_evaluation(
    kube: JobNamespace, operator: Operator, tasks: list[str], evaluation: Body
) -> None:
    """The image has no Ray, so the engines never serve and no shard ever runs."""
    name, small = evaluation["metadata"]["name"], {"requests": {"cpu": "10m", "memory": "16Mi"}}
    evaluation["spec"]["model"] = {"source": {"image": {"reference": IMAGE, "path": "/etc"}}}
    evaluation["spec"]["rollout"] = {
        "image": IMAGE, "sharedMemory": "64Mi", "resources": small, "headResources": small,
    }  # fmt: skip
    kube.apply(evaluation)
    cluster = f"raycluster.ray.io/{name}-engines"
    kube.until(lambda: kube.names("rayclusters"), lambda found: found == [cluster], 150)
    services = kube.until(lambda: kube.names("services"), lambda found: any(name in service for service in found))
    assert f"service/{name}-engines-head-svc" in services
    ports: Any = json.loads(kube.kubectl("get", "service", f"{name}-engines-head-svc", "-o", "json"))["spec"]["ports"]
    assert 30000 in [port["port"] for port in ports]
    assert not [service for service in kube.names("jobs") if name in service]
    kube.kubectl("patch", KIND, name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    kube.until(lambda: objects_of(kube, name), lambda remaining: remaining == [], 90)
