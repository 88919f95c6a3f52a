"""What `swerl tasks check` says of a task in its line."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.cli.task_check import remark
from swerl_agent.grading import Verdict
from swerl_agent.grading.task_validation import TaskValidation, ValidationRun
from swerl_agent.tasks import GroundTruth, Task

from .rows import ROW

TASK = Task("o__r-1", "o/r", "0" * 40, "1", "It breaks.", "image", GroundTruth("sh", "gold", "", ("t::a",), ()))


def checked(dirty: list[str], gold: str = "resolved") -> TaskValidation:
    """Of an image whose tree differs from its commit in `dirty`."""
    report = {"seconds": 1.5, "dirty": dirty}
    gold_run = ValidationRun.of(TASK, "gold", Verdict(gold, report, detail="why"))  # type: ignore[arg-type]
    return TaskValidation(TASK, (gold_run, ValidationRun.of(TASK, "empty", Verdict("unresolved", report))))


@pytest.mark.parametrize(
    ("dirty", "message"),
    [
        ([], "1.5 s of tests"),
        (["tox.ini"], "1.5 s of tests; the image's work tree is dirty: tox.ini"),
        (["a", "b", "c"], "1.5 s of tests; the image's work tree is dirty: a, b, c"),
        (["a", "b", "c", "d", "e"], "1.5 s of tests; the image's work tree is dirty: a, b, c and 2 more"),
    ],
)
def test_dirty_tree_of_an_image_is_remarked(dirty: list[str], message: str) -> None:
    assert remark(checked(dirty)) == message


def test_dirty_tree_is_remarked_beside_the_fault() -> None:
    message = remark(checked(["tox.ini"], gold="unresolved"))
    assert message == "gold_fails: gold: unresolved, why; the image's work tree is dirty: tox.ini"


def test_missing_contrast_is_remarked() -> None:
    report = {"seconds": 1.5, "contrast": "unavailable", "contrast_reason": "nothing can be altered"}
    gold = ValidationRun.of(TASK, "gold", Verdict("resolved", report, detail="FAIL_TO_PASS 1/1"))
    empty = ValidationRun.of(TASK, "empty", Verdict("unresolved", {"seconds": 1.0}))
    found = TaskValidation(TASK, (gold, empty))
    assert found.fit
    assert remark(found) == "1.5 s of tests; contrast: unavailable, nothing can be altered"


def test_check_keeps_calibrations_beside_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []

    class CheckGrader(nullcontext[Any]):
        def __init__(self, client: Any, namespace: str, settings: Any, **kwargs: Any) -> None:
            super().__init__(self)
            recorded.extend([settings.cache, kwargs["cache_directory"]])

        async def grade(self, task: Task, patch: str) -> Verdict:
            return Verdict("resolved" if patch else "unresolved")

    (tmp_path / "tasks.jsonl").write_text(json.dumps(ROW | {"PASS_TO_PASS": ["t::b"]}) + "\n")
    opened = nullcontext(SimpleNamespace(namespace="n"))
    for name in ("open_client", "owning_lease"):
        monkeypatch.setattr(f"swerl_agent.cli.task_check.{name}", lambda *args, **kwargs: opened)
    monkeypatch.setattr("swerl_agent.cli.task_check.Grader", CheckGrader)
    assert main(["tasks", "check", str(tmp_path / "tasks.jsonl"), "--output", str(tmp_path / "out")]) == 0
    assert recorded == [False, tmp_path / "out" / "verdicts"]
