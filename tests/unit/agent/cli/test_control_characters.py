"""Names and errors that a model or a data set wrote, on their way to a terminal."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.cli.eval import _ProgressLines
from swerl_agent.evaluation import SampleRecord, SampleRecords
from swerl_agent.grading import Verdict
from swerl_agent.tasks import Task

from .test_cli import ENGINE, tasks

__all__ = ["tasks"]

HOSTILE = "\x1b]0;owned\x07\x9b2J"
SHOWN = "␛]0;owned␇⟨U+009B⟩2J"


def is_shown(text: str) -> bool:
    return SHOWN in text and not {"\x1b", "\x07", "\x9b"} & set(text)


def test_error_of_a_lost_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = SampleRecord("kit__kit-1", 0, False, False, "lost", "", None, 1, HOSTILE, 1.0, "")
    _ProgressLines(1, SampleRecords(tmp_path)).show(record)
    assert is_shown(capsys.readouterr().err)


def test_ids_and_model_names_of_predictions(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class HostileGrader(nullcontext[None]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__()

        async def grade(self, task: Task, patch: str, *, fresh: bool) -> Verdict:
            return Verdict("resolved")

    opened = nullcontext(SimpleNamespace(namespace="n"))
    for name in ("open_client", "owning_lease"):
        monkeypatch.setattr(f"swerl_agent.cli.grade.{name}", lambda *args, **kwargs: opened)
    monkeypatch.setattr("swerl_agent.cli.grade.Grader", HostileGrader)
    row = {"model_name_or_path": f"model {HOSTILE}", "model_patch": "diff"}
    rows = [{"instance_id": "kit__kit-1", **row}, {"instance_id": f"unknown {HOSTILE}", **row}]
    (tmp_path / "preds.json").write_text(json.dumps(rows))
    arguments = ["grade", str(tmp_path / "preds.json"), "--tasks", str(tasks), "--output", str(tmp_path / "out")]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert is_shown(printed.out)
    assert is_shown(printed.err)


@pytest.mark.parametrize("lost", [True, False])
def test_error_of_an_episode(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lost: bool
) -> None:
    episode = SimpleNamespace(exit_status="failed", commands=[], error=HOSTILE, error_code="")
    graded = SimpleNamespace(
        episode=episode, verdict=None, reward=None, resolved=False, loss_error=HOSTILE if lost else None
    )

    async def run(*args: Any) -> Any:
        return graded

    opened = nullcontext(SimpleNamespace(namespace="n", run=run))
    for name in ("chosen_agent", "open_client", "open_sample_runner"):
        monkeypatch.setattr(f"swerl_agent.cli.episode.{name}", lambda *args, **kwargs: opened)
    monkeypatch.setattr("swerl_agent.cli.episode.write_artifacts", lambda *args, **kwargs: tmp_path)
    arguments = ["episode", "run", str(tasks), "--task", "kit__kit-1", "--output", str(tmp_path / "out"), *ENGINE]
    assert main(arguments) == (3 if lost else 1)
    assert is_shown(capsys.readouterr().err)
