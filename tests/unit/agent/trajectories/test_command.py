"""`swerl trajectories export` as its user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from swerl_agent.cli import main

from tests.unit.agent.console.artifacts import write_evaluation


@pytest.mark.parametrize(("format", "found"), [("atif", "eval/*/agent/trajectory.json"), ("inspect", "eval.eval")])
def test_export_prints_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str, found: str
) -> None:
    write_evaluation(tmp_path / "eval")
    command = ["trajectories", "export", str(tmp_path / "eval"), "--format", format, "--output", str(tmp_path / "out")]
    assert main(command) == 0
    assert capsys.readouterr().out.endswith("4 episodes exported\n")
    assert list((tmp_path / "out").glob(found))


def test_export_names_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_evaluation(tmp_path / "eval")
    next((tmp_path / "eval").glob("*/traj.json")).unlink()
    command = ["trajectories", "export", str(tmp_path / "eval"), "--format", "atif", "--output", str(tmp_path / "out")]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert printed.out.endswith("3 episodes exported, 1 left out\n") and "traj.json cannot be read" in printed.err


def test_folder_without_episodes_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["trajectories", "export", str(tmp_path / "runs"), "--format", "atif", "--output", str(tmp_path / "out")]
    assert main(command) == 2
    assert "holds no episode" in capsys.readouterr().err


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_evaluation(tmp_path / "eval")
    command = ["trajectories", "export", str(tmp_path / "eval"), "--format", "atif", "--output", str(tmp_path / "out")]
    assert main([*command, "-o", "json"]) == 0
    written = [str(tmp_path / "out/eval")]
    assert json.loads(capsys.readouterr().out) == {"episodes": 4, "left_out": 0, "written": written}
