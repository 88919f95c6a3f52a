"""The job that `swerl init` writes is valid, in a layout that its model fits."""

from __future__ import annotations

import pytest
from swerl_agent.jobs import file_faults, parse_job
from swerl_agent.jobs.init import GIB, JobOutline, job_text
from swerl_plan import Machines

NODES = [(0, 1), (1, 1), (2, 1), (8, 1), (8, 2), (8, 4)]  # GPUs of a node, nodes


@pytest.mark.parametrize("model", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "models:own/one"])
@pytest.mark.parametrize(("gpus", "nodes"), NODES)
def test_job_is_valid(model: str, gpus: int, nodes: int) -> None:
    text = job_text(JobOutline(model, "SWE-Gym/SWE-Gym", "runs", gpus, nodes, held_out="swe-tasks:held-out"))
    assert file_faults(parse_job(text, "x").job, Machines(gpu_memory=80 * GIB if gpus else None)) == []


def test_large_model_gets_a_layout_that_fits() -> None:
    job = parse_job(job_text(JobOutline("Qwen/Qwen3-32B", "swe-tasks:train", "runs", 8, 2)), "x").job
    assert file_faults(job, Machines(gpu_memory=80 * GIB)) == []
    assert job["spec"]["trainer"]["pipelineParallel"] > 1


def test_answers_stand_in_the_job_beside_comments() -> None:
    outline = JobOutline("Qwen/Qwen3-4B", "swe-tasks:/train", "out", secret="hub", steps=7, name="mine")
    text = job_text(outline)
    job = parse_job(text, "x").job
    assert job["metadata"]["name"] == "mine" and job["spec"]["algorithm"]["steps"] == 7
    assert job["spec"]["tasks"]["source"] == {"persistentVolumeClaim": {"claimName": "swe-tasks", "path": "train"}}
    assert job["spec"]["trainer"]["envFromSecrets"] == ["hub"]
    assert job["spec"]["checkpoint"]["volume"] == {"persistentVolumeClaim": {"claimName": "out"}}
    assert "groupSize: 8  # episodes per task" in text


def test_name_is_that_of_the_model() -> None:
    job = parse_job(job_text(JobOutline("Qwen/Qwen2.5-Coder-7B-Instruct", "a:b", "runs")), "x").job
    assert job["metadata"]["name"] == "qwen2-5-coder-7b-instruct"
