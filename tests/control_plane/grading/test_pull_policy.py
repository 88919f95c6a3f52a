"""Where no image may be pulled, one that the node does not have ends gradings and attempts within seconds."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.episode import BuiltinAgent, HFTokenizer, Prompts
from swerl_agent.evaluation import Evaluation, SampleRecords, open_sample_runner
from swerl_agent.grading import Grader
from swerl_agent.tasks import Task
from swerl_api import AgentSpec, SampleSpec
from swerl_kube import KubeClient

from tests.control_plane.operator_process import Operator
from tests.scripted_engine import Script

from .conftest import settings
from .test_episode import tokenizer
from .test_evaluation import SMALL

__all__ = ["tokenizer"]
SECONDS = 25  # of which most are for a busy node; a pull would be tried for 30 s and more
NEVER = SMALL.model_copy(update={"image_pull_policy": "Never"})


@pytest.fixture
def absent(task: Task) -> Task:
    """The task with an image that no registry has."""
    return replace(task, image="registry.swerl:5000/swe-rl/never-pulled:3")


async def test_grading_that_must_not_pull_is_an_infrastructure_error_at_once(
    client: KubeClient, namespace: str, absent: Task
) -> None:
    started = time.monotonic()
    async with Grader(client, namespace, settings(), sandbox=NEVER) as grader:
        verdict = await grader.grade(absent, "")
    assert time.monotonic() - started < SECONDS
    assert verdict.status == "infra_error"
    assert "ErrImageNeverPull" in verdict.detail and "never-pulled:3" in verdict.detail


async def test_grading_without_pulls_uses_images_of_the_node(
    client: KubeClient, namespace: str, grader: Grader, task: Task
) -> None:
    await grader.grade(task, "")  # pulls it
    async with Grader(client, namespace, settings(), sandbox=NEVER) as strict:
        assert (await strict.grade(task, task.ground_truth.patch)).resolved


async def test_samples_that_cannot_pull_are_lost_at_once(
    operator: Operator, client: KubeClient, kubeconfig: str, namespace: str, absent: Task, tokenizer: HFTokenizer,
    tmp_path: Path,
) -> None:  # fmt: skip
    agent = BuiltinAgent(Script(tokenizer, ()), tokenizer, Prompts.default(), AgentSpec())
    how = SampleSpec(samples=2, workers=2)
    work = Evaluation([absent], agent, how, SampleRecords(tmp_path), tmp_path)
    started = time.monotonic()
    async with open_sample_runner(client, namespace, settings(), NEVER, job="absent", kubeconfig=kubeconfig) as runner:
        await work.run(runner)
    assert time.monotonic() - started < SECONDS
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [(line["valid"], line["exit_status"]) for line in lines] == [(False, "lost")] * 2
    for line in lines:
        assert line["error"].startswith("ImagePullFailed: ")
        assert "never-pulled:3" in line["error"]
        assert "ErrImageNeverPull" in line["error"] or "imagePullPolicy is Never" in line["error"], line
    assert len(work.left) == 2, "they are made again where the image has come"
