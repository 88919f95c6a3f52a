"""The real inspect_ai and the real harbor open exports, and show what the artifacts have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import Episode
from swerl_agent.trajectories.export import ExportFormat, export_trajectories

from tests.unit.agent.console.artifacts import (
    PATCH,
    RESOLVED,
    UNRESOLVED,
    episode,
    write_evaluation,
    write_job,
    write_rollout,
)

from .viewers import harbor_shows, inspect_dump, inspect_reads

HOSTILE = "\x1b]0;t\x07\x00\udc80\ud800<script>\u202e"
USAGE = {"requests": 2.0, "prompt_tokens": 90.0, "cached_tokens": 30.0, "completion_tokens": 40.0, "cost_usd": 0.25}
CUT = (("ls", "a\n"), ("git log --all", "b\n"), ("pytest", "c\n"))
STATUSES = {"max_steps": "turn", "episode_timeout": "time", "context_overflow": "context", "prompt_too_long": "context"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation, a step of equal groups, and one with every kind of end."""
    root = tmp_path_factory.mktemp("runs")
    write_evaluation(root / "eval", tasks=2, samples=3)
    write_job(root / "job", steps=1, groups=2, size=2)
    job = root / "job"
    write_rollout(job, episode("usage", usage=USAGE), RESOLVED, 2, model="kit/tiny")
    write_rollout(job, episode("cut", commands=CUT), UNRESOLVED, 2, model="kit/tiny")
    write_rollout(job, episode("usage", index=1, patch=None, infrastructure_error=True, error_code="evicted"), None, 2)
    write_rollout(job, Episode("empty", "g", 0, exit_status="lost", infrastructure_error=True), None, 2)
    for status in STATUSES:
        write_rollout(job, episode(status, exit_status=status), UNRESOLVED, 2)
    commands = ((HOSTILE, HOSTILE), ("cat big", "x" * 1_000_000))
    odd = {"nan": float("nan"), "deep": json.loads("[" * 300 + "]" * 300)}
    hostile = episode(HOSTILE, HOSTILE, commands=commands, patch=f"{PATCH}+\udcff\x00\n", agent_name=HOSTILE)
    write_rollout(job, hostile, RESOLVED, 2, **odd)
    return root


def exported(runs: Path, output: Path, format: ExportFormat) -> Path:
    """The export of `runs`."""
    count = export_trajectories(runs, output, format, on_error=lambda error: pytest.fail(str(error)))
    assert count.failed == 0
    return output


@pytest.fixture(scope="module")
def logs(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(runs, tmp_path_factory.mktemp("inspect"), "inspect")


def test_inspect_reads_each_sample_of_an_evaluation(logs: Path) -> None:
    found = inspect_reads(logs / "eval.eval")
    log = found["log"]
    assert (log["status"], log["eval"]["model"], log["eval"]["dataset"]["name"]) == ("success", "tiny", "tasks")
    assert len(found["samples"]) == len(found["summaries"]) == len(log["samples"]) == 6
    assert all(each["completed"] for each in found["summaries"])
    resolved, reward = log["results"]["scores"]
    assert resolved["metrics"]["accuracy"]["value"] == reward["metrics"]["mean"]["value"] == pytest.approx(1 / 3)
    assert [each["scores"]["resolved"]["value"] for each in log["samples"]].count(1.0) == 2


def test_inspect_shows_the_conversation_with_its_tool_calls(logs: Path) -> None:
    log = inspect_reads(logs / "job-step-0001.eval")["log"]
    assert log["status"] == "success" and len(log["samples"]) == 4
    system, user, answer, result, _, _ = log["samples"][0]["messages"]
    assert (system["role"], user["role"], result["role"]) == ("system", "user", "tool")
    reasoning, said = answer["content"]
    assert reasoning["reasoning"].startswith("I look at the problem again.") and said["text"].startswith("THOUGHT")
    (call,) = answer["tool_calls"]
    assert (call["function"], call["arguments"]) == ("bash", {"command": "grep -rn total store"})
    assert call["id"] == result["tool_call_id"] and "store/cart.py:11" in result["content"]
    assert answer["metadata"]["end_token"] == 60 and log["samples"][0]["store"]["segments"][0]["logprobs"]


def test_inspect_reads_a_step_in_which_tasks_have_different_numbers_of_rollouts(logs: Path) -> None:
    found = inspect_reads(logs / "job-step-0002.eval")
    log, samples = found["log"], {(each["id"], each["epoch"]): each for each in found["log"]["samples"]}
    assert log["status"] == "cancelled", "readers expect every epoch of every task in a complete log"
    assert len(found["samples"]) == len(samples) == 9 and log["eval"]["model"] == "kit/tiny"
    for status, limit in STATUSES.items():
        assert samples[status, 1]["limit"]["type"] == limit
    lost = samples["usage", 2]
    assert lost["error"]["message"] == "evicted" and not lost["scores"]
    usage = samples["usage", 1]["model_usage"]["kit/tiny"]
    assert (usage["input_tokens"], usage["input_tokens_cache_read"], usage["output_tokens"]) == (60, 30, 40)
    (hostile,) = (each for (name, _), each in samples.items() if "script" in name)
    assert hostile["messages"][2]["tool_calls"][0]["arguments"]["command"].endswith("<script>\u202e")


def test_inspect_prints_the_log(logs: Path) -> None:
    assert len(inspect_dump(logs / "eval.eval")["samples"]) == 6


@pytest.fixture(scope="module")
def harbor(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return harbor_shows(exported(runs, tmp_path_factory.mktemp("harbor"), "atif"))


def test_harbor_accepts_every_trajectory(harbor: dict[str, Any]) -> None:
    assert harbor["faults"] == []
    assert {name: len(job["trials"]) for name, job in harbor["jobs"].items()} == {
        "eval": 6, "job-step-0001": 4, "job-step-0002": 9,
    }  # fmt: skip


def test_harbor_lists_jobs_with_their_results(harbor: dict[str, Any]) -> None:
    job = harbor["jobs"]["eval"]
    assert (job["agents"], job["models"], job["datasets"]) == (["builtin"], ["tiny"], ["tasks"])
    assert (job["n_completed_trials"], job["n_errored_trials"]) == (6, 0)
    (metrics,) = job["evals"]["builtin__tiny__tasks"]["metrics"]
    assert metrics == {"resolved": pytest.approx(1 / 3), "reward": pytest.approx(1 / 3)}
    assert job["started_at"] < min(trial["result"]["finished_at"] for trial in job["trials"].values())


def test_harbor_sums_tokens_and_lost_trials(harbor: dict[str, Any]) -> None:
    job = harbor["jobs"]["job-step-0002"]
    assert job["n_errored_trials"] == 2 and job["total_cost_usd"] == 0.25
    assert (job["total_input_tokens"], job["total_cached_input_tokens"], job["total_output_tokens"]) == (60, 30, 40)
    (lost,) = (each for name, each in job["trials"].items() if name.startswith("usage") and "__i1__" in name)
    assert lost["result"]["exception_info"]["exception_type"] == "evicted"
    assert lost["result"]["verifier_result"] is None


def test_harbor_shows_the_trajectory_and_the_patch(harbor: dict[str, Any]) -> None:
    trials = harbor["jobs"]["job-step-0002"]["trials"]
    (used,) = (each for name, each in trials.items() if name.startswith("usage") and "__i0__" in name)
    assert used["files"] == ["patch.diff"] and used["trajectory"]["extra"]["patch"] == PATCH
    assert used["result"]["verifier_result"]["rewards"] == {"resolved": 1.0, "reward": 1.0}
    _, _, first, _ = used["trajectory"]["steps"]
    assert first["reasoning_content"].startswith("I look at the problem again.")
    assert first["tool_calls"][0]["arguments"] == {"command": "grep -rn total store"}
    (result,) = first["observation"]["results"]
    assert result["source_call_id"] == first["tool_calls"][0]["tool_call_id"] and "cart.py:11" in result["content"]
