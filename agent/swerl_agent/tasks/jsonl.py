"""JSON Lines tasks: one row per line, in the shapes that training data of this kind comes in.

A row is the dataset row itself; `{"text", "metadata": {"instance", "data_source"}}`; or `{"prompt", "metadata"}` with
the row's columns inside `metadata`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .images import image_name
from .task import Task, TaskError, task_from_row

SUBSETS = {"gym": "swe-gym", "verified": "swe-bench", "lite": "swe-bench"}


def read_jsonl(path: Path) -> list[Task]:
    """Every task of a .jsonl file, or of all .jsonl files of a folder; raises TaskError naming file, line and field."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise TaskError(f"{path} holds no .jsonl file")
    return [task for file in files for task in _tasks(file)]


def _tasks(file: Path) -> Iterator[Task]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{file}: cannot be read as UTF-8 text: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _task(line, where=f"{file}:{number}")


def _task(line: str, *, where: str) -> Task:
    try:
        outer = json.loads(line)
    except ValueError as error:
        raise TaskError(f"{where}: not valid JSON: {error}") from error
    if not isinstance(outer, dict):
        raise TaskError(f"{where}: a row must be a JSON object")
    row, data_source = unwrap(outer)
    try:
        image = image_name(row, data_source)
    except KeyError as error:
        raise TaskError(f"{where}: field {error.args[0]} is missing") from error
    except ValueError as error:
        raise TaskError(f"{where}: {error}") from error
    return task_from_row(row, where=where, image=image)


def unwrap(outer: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """(dataset row, data source) of one line's object."""
    metadata = outer.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    instance = metadata.get("instance", outer.get("instance"))
    row = dict(instance) if isinstance(instance, dict) else {**outer, **metadata}
    if not row.get("problem_statement"):
        row["problem_statement"] = row.get("instruction") or outer.get("prompt") or outer.get("text")
    subset = str(metadata.get("subset") or row.get("subset") or "")
    source = metadata.get("data_source") or outer.get("data_source") or SUBSETS.get(subset, "")
    return row, str(source)
