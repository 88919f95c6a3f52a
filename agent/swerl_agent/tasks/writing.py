"""Writing tasks as JSON Lines for training and evaluation.

Guarantees: what only grading may know is in a file of its own, `<name>.grading.jsonl`, unless whole rows are asked for;
both files appear whole or stay as they were; rows appended to a file leave those before them untouched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from swerl_agent import storage

from .importing import Entry
from .row_files import grading_file, unread_rows
from .rows import SUBSETS, TRAIN_ON_BENCHMARK
from .task import Task, TaskError

PromptFormat = Literal["text", "prompt"]


@dataclass(frozen=True)
class RowLayout:
    """How rows are written."""

    format: PromptFormat = "text"  # key of the problem statement, and with it where the columns lie
    whole_rows: bool = False  # every column in one file, as trainers expect that know no other


def write_entries(path: Path, entries: Sequence[Entry], layout: RowLayout, *, append: bool = False) -> list[Path]:
    """Write `entries` to `path`, and their grading half beside it; the files written.

    Raises TaskError when a file cannot be written, or cannot be appended to.
    """
    halves = {path: [_line(_visible(entry, layout)) for entry in entries]}
    if not layout.whole_rows:
        halves = {grading_file(path): [_line(grading_columns(entry.task)) for entry in entries], **halves}
    if append and path.exists():
        _check_appendable(path, entries, layout)
        halves = {file: [_before(file), *lines] for file, lines in halves.items()}
    elif layout.whole_rows and grading_file(path).exists():
        raise TaskError(f"{grading_file(path)} belongs to the file that would be replaced; remove it or choose another")
    write_atomic(halves)
    return list(halves)


def write_atomic(files: Mapping[Path, Iterable[bytes]]) -> None:
    """See `storage.write_atomic`; raises TaskError."""
    try:
        storage.write_atomic(files)
    except storage.WriteFailed as error:
        raise TaskError(str(error)) from error


def visible_columns(task: Task) -> dict[str, Any]:
    """What of `task` an agent may see."""
    view = task.visible()
    return {
        "instance_id": view.instance_id,
        "repo": view.repo,
        "base_commit": view.base_commit,
        "version": view.version,
        "problem_statement": view.problem_statement,
        "image_name": view.image,
    } | ({"workdir": task.workdir} if task.workdir else {})


def grading_columns(task: Task) -> dict[str, Any]:
    """What of `task` only grading may know."""
    ground_truth = task.ground_truth
    columns: dict[str, Any] = {
        "instance_id": task.instance_id,
        "eval_script": ground_truth.eval_script,
        "patch": ground_truth.patch,
        "test_patch": ground_truth.test_patch,
        "FAIL_TO_PASS": ground_truth.fail_to_pass,
        "PASS_TO_PASS": ground_truth.pass_to_pass,
        "log_parser": ground_truth.log_parser,
        "eval_type": ground_truth.eval_type,
    }
    if ground_truth.expected_output:
        columns["expected_output_json"] = dict(ground_truth.expected_output)
    return columns | ({"hidden_paths": task.hidden_paths} if task.hidden_paths else {})


def _visible(entry: Entry, layout: RowLayout) -> dict[str, Any]:
    task = entry.task
    columns = visible_columns(task)
    if layout.whole_rows:
        columns = {**entry.row.columns, **columns}
    origin: dict[str, Any] = {"data_source": task.data_source, "split": task.split}
    if entry.row.train_on_benchmark:
        origin[TRAIN_ON_BENCHMARK] = True
    if layout.format == "text":
        return {"text": task.problem_statement, "metadata": {"instance": columns, **origin}}
    origin |= {"subset": _subset(task.data_source), "agent_name": "mini-swe-agent"}
    return {"prompt": task.problem_statement, "metadata": {**columns, **origin}}


def _subset(data_source: str) -> str:
    name = data_source.lower()
    return next((subset for subset in SUBSETS if subset in name), data_source)


def _check_appendable(path: Path, entries: Iterable[Entry], layout: RowLayout) -> None:
    if grading_file(path).exists() == layout.whole_rows:
        how = "with" if layout.whole_rows else "without"
        raise TaskError(f"{path} was written the other way: {how} --whole-rows nothing can be appended to it")
    known = {unread.row().columns.get("instance_id") for unread in unread_rows(path)}
    repeated = [entry for entry in entries if entry.task.instance_id in known]
    if repeated:
        raise TaskError(f"{repeated[0].where}: instance_id {repeated[0].task.instance_id} is in {path} already")


def _before(file: Path) -> bytes:
    content = file.read_bytes()
    return content if content.endswith(b"\n") or not content else content + b"\n"


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n"
    except UnicodeEncodeError:  # bytes of a patch that are no UTF-8 travel as escaped surrogates
        return json.dumps(row, ensure_ascii=True, default=str).encode() + b"\n"
