"""Tasks that do not grade as they should, with what was seen: written by `swerl tasks check`, left out by others."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .row_files import QUARANTINE, unread_rows
from .task import TaskError
from .writing import write_atomic

Reason = Literal["flaky", "gold_fails", "empty_passes", "unreadable"]


@dataclass(frozen=True)
class Quarantined:
    """One task and why it is left out."""

    instance_id: str
    reason: Reason
    detail: str  # one line for people
    evidence: Mapping[str, Any]  # the runs and the tests that say so


def read_quarantine(path: Path) -> set[str]:
    """Ids of the tasks in a quarantine file; raises TaskError naming line and field."""
    return set(_rows(path))


def quarantined_beside(tasks: Path) -> set[str]:
    """Ids in the quarantine file in the folder of a task source; none without one. Raises TaskError."""
    path = (tasks if tasks.is_dir() else tasks.parent) / QUARANTINE
    return read_quarantine(path) if path.is_file() else set()


def update_quarantine(path: Path, found: Iterable[Quarantined], *, checked: Collection[str]) -> None:
    """Replace the rows of the tasks in `checked` by `found`; other rows stay. Raises TaskError."""
    before = _rows(path) if path.exists() else {}
    rows = {name: row for name, row in before.items() if name not in checked}
    rows |= {task.instance_id: vars(task) for task in found}
    write_atomic({path: [json.dumps(rows[name]).encode() + b"\n" for name in sorted(rows)]})


def _rows(path: Path) -> dict[str, Mapping[str, Any]]:
    rows = {}
    for unread in unread_rows(path):
        row = unread.read()
        if not isinstance(row.get("instance_id"), str):
            raise TaskError("field instance_id is missing", unread.where)
        rows[row["instance_id"]] = row
    return rows
