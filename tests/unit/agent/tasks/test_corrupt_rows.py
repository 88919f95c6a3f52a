"""Rows with something wrong in any one place: each is a task all the same, or an error with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.tasks import Task, TaskError
from swerl_agent.tasks.row_files import grading_file, task_of, unread_rows

from .rows import jsonl, kiro, nemo_gym, prompt_line, r2e, sumanth, swebench, text_line

SHAPES = {
    "swe-gym": text_line(sumanth(), "SWE-Gym/SWE-Gym"),
    "swe-bench": swebench(),
    "r2e": r2e(),
    "prompt": prompt_line(sumanth(), "gym", "train"),
    "kiro": kiro(sumanth(), "swe-gym"),
    "nemo-gym": nemo_gym(sumanth(), "SWE-Gym/SWE-Gym", "train"),
}
WRONG = [
    *(None, True, 0, -1.5, 10**30),
    *("", "x", "\udcff", "[", "null", "3", "[]", "[1]", "{}", '{"a": []}'),
    *([], [None], ["x", 1], [[]], {}, {"a": 1}, {"": {}}),
]
Path_ = tuple[Any, ...]


def paths_of(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The way to everything in a row."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from paths_of(part, (*path, key))


def with_wrong_value(value: Any, path: Path_, value_: Any) -> Any:
    """`value` with `wrong` where `way` leads to."""
    if not path:
        return value_
    copy = value.copy()
    copy[path[0]] = with_wrong_value(value[path[0]], path[1:], value_)
    return copy


def check(task: Task) -> None:
    """What the rest of the program counts on."""
    texts = (task.instance_id, task.repo, task.base_commit, task.problem_statement, task.image)
    assert all(isinstance(text, str) and text for text in texts)
    tests = (*task.ground_truth.fail_to_pass, *task.ground_truth.pass_to_pass)
    assert task.ground_truth.fail_to_pass and all(isinstance(test, str) for test in tests)
    assert all(isinstance(text, str) for text in (task.ground_truth.eval_script, task.ground_truth.patch, task.version))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("halved", [False, True], ids=["whole", "in two files"])
def test_row_is_a_task_or_an_error_with_its_line(tmp_path: Path, shape: str, halved: bool) -> None:
    file = tmp_path / "rows.jsonl"
    corrupt_rows = [
        with_wrong_value(SHAPES[shape], path, value_) for path in paths_of(SHAPES[shape]) for value_ in WRONG
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in corrupt_rows))
    if halved:
        jsonl(grading_file(file), {"instance_id": "getmoto__moto-5876", "patch": "diff --git a/x b/x\n"})
    refused = 0
    for record in unread_rows(file):
        try:
            check(task_of(record.row(), where=record.where))
        except TaskError as error:
            assert str(error).startswith(f"{record.where}: ")
            assert len(str(error).splitlines()) == 1
            refused += 1
    assert refused >= 100


def test_brackets_without_end_are_an_error_with_their_line(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "rows.jsonl", sumanth())
    with file.open("a") as rows:
        rows.write("[" * 200_000 + "\n")
    _, deep = unread_rows(file)
    with pytest.raises(TaskError, match=r"rows\.jsonl:2: not valid JSON"):
        deep.row()
