"""Episodes as ATIF, in the folder of a harbor job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.audit import TrajectoryError
from swerl_agent.episode import Episode
from swerl_agent.trajectories.export import ExportCount, export_trajectories

from tests.unit.agent.console.artifacts import (
    PATCH,
    RESOLVED,
    UNRESOLVED,
    episode,
    write_evaluation,
    write_job,
    write_rollout,
)

from .atif_schema import atif_faults


def exported(root: Path, output: Path, **options: Any) -> tuple[ExportCount, list[TrajectoryError]]:
    """The export of `root`."""
    errors: list[TrajectoryError] = []
    return export_trajectories(root, output, "atif", on_error=errors.append, **options), errors


def document(output: Path) -> dict[str, Any]:
    """The only document of an export."""
    (file,) = output.glob("*/*/agent/trajectory.json")
    content: dict[str, Any] = json.loads(file.read_bytes())
    assert atif_faults(content) == []
    return content


def test_every_episode_of_jobs_and_evaluations_is_a_trial(tmp_path: Path) -> None:
    write_job(tmp_path / "runs/job", steps=2, groups=1, size=2)
    write_evaluation(tmp_path / "runs/eval")
    count, errors = exported(tmp_path / "runs", tmp_path / "out")
    assert (count.episodes, errors) == (8, [])
    assert sorted(path.name for path in count.written) == ["eval", "job-step-0001", "job-step-0002"]
    for trial in tmp_path.glob("out/*/*/agent/trajectory.json"):
        assert atif_faults(json.loads(trial.read_bytes())) == []
    results = [json.loads(file.read_bytes()) for file in tmp_path.glob("out/eval/*/result.json")]
    assert [each["verifier_result"]["rewards"]["resolved"] for each in results].count(1.0) == 2
    assert {each["agent_info"]["model_info"]["name"] for each in results} == {"tiny"}
    assert json.loads((tmp_path / "out/eval/result.json").read_bytes())["n_total_trials"] == 4


def test_document_has_what_the_artifacts_have(tmp_path: Path) -> None:
    usage = {"requests": 2.0, "prompt_tokens": 90.0, "cached_tokens": 30.0, "completion_tokens": 40.0}
    folder = write_rollout(tmp_path / "job", episode(usage=usage), RESOLVED, 1)
    exported(folder, tmp_path / "out")
    found = document(tmp_path / "out")
    system, user, first, second = found["steps"]
    assert (system["source"], user["source"], first["source"]) == ("system", "user", "agent")
    assert first["reasoning_content"].startswith("I look at the problem again.")
    assert "<think>" not in first["message"]
    assert first["tool_calls"][0]["arguments"] == {"command": "grep -rn total store"}
    assert first["observation"]["results"][0]["source_call_id"] == first["tool_calls"][0]["tool_call_id"]
    assert "store/cart.py:11" in first["observation"]["results"][0]["content"]
    segment = found["extra"]["segments"][0]
    metrics = second["metrics"]
    assert metrics["prompt_tokens"] == metrics["extra"]["first_token"] == 65
    assert metrics["completion_token_ids"] == segment["tokens"][65:85]
    assert segment["loss_mask"][65:85] == [1] * 20
    assert metrics["logprobs"] == segment["logprobs"][65:85]
    assert metrics["extra"]["weight_versions"] == [["v1", 65, 85]]
    assert found["final_metrics"]["total_cached_tokens"] == 30
    extra = found["extra"]
    assert (extra["patch"], extra["reward"], extra["exit_status"]) == (PATCH, 1.0, "submitted")
    assert extra["verdict"]["status"] == "resolved"


def test_cuts_scores_and_findings_are_at_their_step(tmp_path: Path) -> None:
    commands = (("ls", "a\n"), ("git log --all", "b\n"), ("pytest", "c\n"))
    folder = write_rollout(tmp_path / "job", episode(commands=commands), UNRESOLVED, 1)
    exported(folder, tmp_path / "out")
    *_, second, third = document(tmp_path / "out")["steps"]
    assert second["extra"]["audit"][0]["rule"] == "git-all"
    assert third["extra"]["context_cut"] == {"segment": 1, "omitted_turns": 1}
    assert third["extra"]["judge"]["score"] == 0.5


def test_submitting_command_has_the_output_of_its_record(tmp_path: Path) -> None:
    one = episode()
    del one.messages[-1]
    one.commands[-1] |= {"output_head": "a" * 1500, "output_tail": "b" * 1500, "output_len": 4000}
    folder = write_rollout(tmp_path / "job", one, RESOLVED, 1)
    exported(folder, tmp_path / "out")
    (result,) = document(tmp_path / "out")["steps"][-1]["observation"]["results"]
    assert result["content"] == "a" * 1500 + "\n[1000 characters are not kept]\n" + "b" * 1500


def test_tokens_can_be_left_out(tmp_path: Path) -> None:
    folder = write_rollout(tmp_path / "job", episode(), RESOLVED, 1)
    exported(folder, tmp_path / "out", tokens=False)
    found = document(tmp_path / "out")
    assert found["extra"]["segments"] == [] and not any("metrics" in step for step in found["steps"])


def test_episode_without_messages_is_exported(tmp_path: Path) -> None:
    lost = Episode("t", "g", 0, exit_status="infrastructure_error", error_code="evicted", infrastructure_error=True)
    folder = write_rollout(tmp_path / "job", lost, None, 1)
    exported(folder, tmp_path / "out")
    assert document(tmp_path / "out")["steps"][0]["source"] == "system"
    (result,) = tmp_path.glob("out/*/*/result.json")
    assert json.loads(result.read_bytes())["exception_info"]["exception_type"] == "evicted"


HOSTILE = "\x1b]0;t\x07\x00\udc80\ud800<script>\u202e"


def test_hostile_content_is_valid_unicode(tmp_path: Path) -> None:
    commands = ((HOSTILE, HOSTILE), ("cat big", "x" * 10_000_000))
    one = episode(HOSTILE, HOSTILE, commands=commands, patch=PATCH + "+\udcff\x00\n", error=HOSTILE, agent_name=HOSTILE)
    folder = write_rollout(tmp_path / "job", one, RESOLVED, 1, nan=float("nan"), deep=json.loads("[" * 300 + "]" * 300))
    exported(folder, tmp_path / "out")
    found = document(tmp_path / "out")
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    assert "\x00\\udc80\\ud800<script>" in found["steps"][2]["tool_calls"][0]["arguments"]["command"]
    assert len(found["steps"][3]["observation"]["results"][0]["content"]) > 10_000_000


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff"])
@pytest.mark.parametrize("name", ["traj.json", "meta.json"])
def test_odd_file_is_named_and_ends_nothing(tmp_path: Path, name: str, content: bytes) -> None:
    write_job(tmp_path / "job", steps=1, groups=1, size=2)
    damaged = sorted((tmp_path / "job/artifacts/step-0001").iterdir())[0] / name
    damaged.write_bytes(content)
    count, errors = exported(tmp_path / "job", tmp_path / "out")
    assert (count.episodes, count.failed) == (1, 1)
    assert name in str(errors[0]) and damaged.parent.name in str(errors[0])


@pytest.mark.parametrize("value", [None, 7, "x", [1], {"a": 1}, [[]], [{}], [None, {"step": []}], 1e999, "\ud800"])
def test_fields_of_any_type_are_exported(tmp_path: Path, value: object) -> None:
    folder = write_rollout(tmp_path / "job", episode(), RESOLVED, 1)
    meta = json.loads((folder / "meta.json").read_bytes())
    trajectory = json.loads((folder / "traj.json").read_bytes())
    (folder / "meta.json").write_text(json.dumps(dict.fromkeys(meta, value)))
    for content in ({}, dict.fromkeys(("messages", "step_debug", "segments"), value)):
        (folder / "traj.json").write_text(json.dumps({**trajectory, **content}))
        assert exported(folder, tmp_path / "out")[1] == []
        assert document(tmp_path / "out")["steps"]


def test_folder_without_episodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match="holds no episode"):
        exported(tmp_path / "runs", tmp_path / "out")


def test_output_inside_the_folder_is_refused(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "eval")
    with pytest.raises(TrajectoryError, match="lies inside"):
        exported(tmp_path / "eval", tmp_path / "eval/atif")
    assert not (tmp_path / "eval/atif").exists()
