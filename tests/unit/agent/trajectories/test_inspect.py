"""Episodes as Inspect logs. Fields are those of inspect_ai 0.3.285, which reads such files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.audit import TrajectoryError
from swerl_agent.trajectories.export import export_trajectories

from tests.unit.agent.console.artifacts import (
    PATCH,
    RESOLVED,
    UNRESOLVED,
    episode,
    write_evaluation,
    write_job,
    write_rollout,
)

SAMPLE = {
    "id", "epoch", "input", "target", "messages", "output", "scores", "metadata", "store", "model_usage", "started_at",
    "completed_at", "total_time", "working_time", "uuid", "error", "limit", "turn_count",
}  # fmt: skip
HOSTILE = "\x1b]0;t\x07\x00\udc80\ud800<script>"


def exported(root: Path, output: Path, **options: Any) -> tuple[list[Path], list[TrajectoryError]]:
    """The logs of `root`."""
    errors: list[TrajectoryError] = []
    return export_trajectories(root, output, "inspect", on_error=errors.append, **options).written, errors


def read(log: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Header, summaries and samples of a log."""
    with zipfile.ZipFile(log) as archive:
        assert archive.testzip() is None
        content = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    samples = [each for name, each in content.items() if name.startswith("samples/")]
    for each in samples:
        assert not set(each) - SAMPLE
        assert content[f"samples/{each['id']}_epoch_{each['epoch']}.json"] is each
    return content["header.json"], content["summaries.json"], samples


def test_evaluation_is_one_log(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "eval", tasks=2, samples=3)
    (log,), errors = exported(tmp_path / "eval", tmp_path / "out")
    header, summaries, samples = read(log)
    assert errors == [] and log.name == "eval.eval"
    assert (header["version"], header["status"], header["eval"]["model"]) == (2, "success", "tiny")
    assert header["eval"]["dataset"]["samples"] == 2 and header["eval"]["config"]["epochs"] == 3
    assert len(summaries) == len(samples) == header["results"]["total_samples"] == 6
    resolved, reward = header["results"]["scores"]
    assert resolved["metrics"]["accuracy"]["value"] == reward["metrics"]["mean"]["value"] == pytest.approx(1 / 3)
    assert {(each["id"], each["epoch"]) for each in samples} == {(each["id"], each["epoch"]) for each in summaries}


def test_each_step_of_a_job_is_a_log(tmp_path: Path) -> None:
    write_job(tmp_path / "runs/job", steps=2, groups=2, size=2)
    write_rollout(tmp_path / "runs/job", episode("swe-rl__store-0", "again", 0), RESOLVED, 2)
    logs, _ = exported(tmp_path / "runs", tmp_path / "out")
    assert [log.name for log in logs] == ["job-step-0001.eval", "job-step-0002.eval"]
    epochs = [each["epoch"] for each in read(logs[1])[2] if each["id"] == "swe-rl__store-0"]
    assert sorted(epochs) == [1, 2, 3]


def test_sample_has_what_the_artifacts_have(tmp_path: Path) -> None:
    usage = {"requests": 2.0, "prompt_tokens": 90.0, "cached_tokens": 30.0, "completion_tokens": 40.0}
    folder = write_rollout(tmp_path / "job", episode(usage=usage), RESOLVED, 1)
    (sample,) = read(exported(folder, tmp_path / "out")[0][0])[2]
    assert [message["role"] for message in sample["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip
    _, _, answer, result, second, _ = sample["messages"]
    assert answer["content"][0]["type"] == "reasoning"
    assert answer["tool_calls"][0]["id"] == result["tool_call_id"]
    assert result["metadata"]["role"] == "user" and result["metadata"]["exit_code"] == 0
    segment, metadata = sample["store"]["segments"][0], second["metadata"]
    assert segment["loss_mask"][metadata["first_token"] : metadata["end_token"]] == [1] * 20
    assert sample["scores"]["resolved"]["value"] == 1 and sample["scores"]["reward"]["value"] == 1.0
    assert sample["scores"]["resolved"]["metadata"]["status"] == "resolved"
    assert sample["metadata"]["patch"] == PATCH and sample["metadata"]["exit_status"] == "submitted"
    assert sample["model_usage"]["unknown"] == {
        "input_tokens": 60, "output_tokens": 40, "total_tokens": 130, "input_tokens_cache_read": 30,
    }  # fmt: skip


@pytest.mark.parametrize(("status", "limit"), [("max_steps", "turn"), ("episode_timeout", "time"), ("submitted", None)])
def test_exit_status_is_a_limit(tmp_path: Path, status: str, limit: str | None) -> None:
    folder = write_rollout(tmp_path / "job", episode(exit_status=status), UNRESOLVED, 1)
    (sample,) = read(exported(folder, tmp_path / "out")[0][0])[2]
    assert sample.get("limit", {}).get("type") == limit


def test_lost_episode_has_an_error_and_no_score(tmp_path: Path) -> None:
    lost = episode(infrastructure_error=True, error_code="evicted", error="the node is gone", patch=None)
    folder = write_rollout(tmp_path / "job", lost, None, 1)
    header, (summary,), (sample,) = read(exported(folder, tmp_path / "out")[0][0])
    assert sample["error"]["message"] == summary["error"] == "evicted: the node is gone"
    assert "scores" not in sample and header["results"]["scores"][0]["unscored_samples"] == 1


def test_hostile_content_is_valid_unicode(tmp_path: Path) -> None:
    commands = ((HOSTILE, HOSTILE), ("cat big", "x" * 10_000_000))
    one = episode(f"../{HOSTILE}", HOSTILE, commands=commands, patch=f"+{HOSTILE.replace(chr(0xD800), '')}")
    folder = write_rollout(tmp_path / "job", one, RESOLVED, 1, nan=float("nan"), model=HOSTILE)
    header, summaries, samples = read(exported(folder, tmp_path / "out")[0][0])
    json.dumps([header, summaries, samples], ensure_ascii=False, allow_nan=False).encode()
    assert "/" not in samples[0]["id"] and samples[0]["metadata"]["instance_id"].startswith("../\x1b")
    assert len(json.dumps(summaries)) < 10_000


def test_odd_file_is_named_and_ends_nothing(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "eval", tasks=1, samples=2)
    next((tmp_path / "eval").glob("*/traj.json")).write_bytes(b"{")
    (log,), (error,) = exported(tmp_path / "eval", tmp_path / "out")
    assert len(read(log)[2]) == 1 and "traj.json" in str(error)


def test_set_without_a_readable_episode_leaves_no_log(tmp_path: Path) -> None:
    folder = write_rollout(tmp_path / "job", episode(), RESOLVED, 1)
    (folder / "traj.json").unlink()
    logs, errors = exported(tmp_path / "job", tmp_path / "out")
    assert (logs, len(errors), list((tmp_path / "out").iterdir())) == ([], 1, [])
