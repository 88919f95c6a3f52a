"""A SweEval with an endpoint for OpenAI's chat completions whose key is in a Secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace
from .evaluations import (
    KEY,
    KIND,
    MODEL,
    TASKS,
    EngineInAPod,
    engine,
    evaluation,
    repository,
    results,
    task,
    tasks,
    tokenizer,
    wait_until_complete,
)

__all__ = ["engine", "evaluation", "repository", "task", "tasks", "tokenizer"]


@pytest.fixture(scope="module")
def endpoint(kube: JobNamespace, engine: EngineInAPod) -> Body:
    """The engine's chat completions, its key in a Secret."""
    kube.kubectl("create", "secret", "generic", "api", f"--from-literal=token={KEY}")
    secret = {"name": "api", "key": "token"}
    return {"url": f"{engine.url}/v1", "api": "chat-completions", "model": MODEL, "apiKeySecret": secret}


def test_endpoint_gets_the_key_and_no_file_does(
    kube: JobNamespace, operator: Operator, endpoint: Body, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    evaluation["spec"]["model"] = {"endpoint": endpoint}
    kube.apply(evaluation)
    kube.until(lambda: kube.names("jobs"), lambda jobs: any(name in job for job in jobs), 400)
    listed = kube.kubectl("get", "pods,jobs,configmaps", "-l", f"swerl.dev/evaluation={name}", "-o", "json")
    assert f"{name}-shards" in listed and KEY not in listed + kube.kubectl("get", KIND, name, "-o", "json")
    status = wait_until_complete(kube, name)
    assert (status["total"], status["resolved"], status["errors"]) == (TASKS, TASKS, 0)
    output = Path("/tmp") / kube.namespace / name
    for line in results(kube, name):
        (file,) = output.glob(f"shard-*/{line['run_dir']}/traj.json")
        assert json.loads(file.read_text())["segments"] == []
    assert not [path for path in output.rglob("*.json*") if KEY in path.read_text()]


def test_model_unknown_to_the_endpoint_fails_the_evaluation_at_once(
    kube: JobNamespace, operator: Operator, endpoint: Body, tasks: list[str], evaluation: Body
) -> None:
    evaluation["spec"]["model"] = {"endpoint": endpoint | {"model": "policy-8b"}}
    kube.apply(evaluation)
    found = kube.until_condition(evaluation["metadata"]["name"], "Failed", "ShardsFailed", 400, kind=KIND)
    assert f"does not serve model 'policy-8b' but {MODEL}" in found["message"]
