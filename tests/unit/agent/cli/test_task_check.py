"""What `swerl tasks check` says of a task in its line."""

from __future__ import annotations

import pytest
from swerl_agent.cli.task_check import remark
from swerl_agent.grading import Verdict
from swerl_agent.grading.task_validation import TaskValidation, ValidationRun
from swerl_agent.tasks import GroundTruth, Task

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
