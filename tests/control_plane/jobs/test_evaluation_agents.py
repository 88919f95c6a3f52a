"""A SweEval whose attempts an agent of others makes, in real sandboxes, against a scripted engine."""

from __future__ import annotations

import json
from pathlib import Path

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace
from .evaluations import (
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


def test_mini_swe_agent_runs_the_samples(
    kube: JobNamespace, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"]["agent"] |= {"kind": "mini-swe-agent", "protocol": "mini-swe-agent-2"}
    kube.apply(evaluation)
    status = wait_until_complete(kube, name)
    assert (status["total"], status["resolved"], status["errors"]) == (TASKS, TASKS, 0)
    for line in results(kube, name):
        (file,) = (Path("/tmp") / kube.namespace / name).glob(f"shard-*/{line['run_dir']}/traj.json")
        prompt = json.loads(file.read_text())["messages"][1]["content"]
        assert "mswea_bash_command" in prompt, "the prompts are its own"
