"""Questions to the index: runs with their counts, episodes by filters, neighbours, members of a prompt."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PAGE = 100  # episodes of one page
ORDERS = {
    "newest": "ended desc",
    "oldest": "ended",
    "reward": "reward desc, ended desc",
    "turns": "turns desc, ended desc",
    "seconds": "seconds desc, ended desc",
    "task": "task, ended",
}
EXACT = ("run", "task", "verdict", "exit_status", "purpose", "group_id")  # columns that a filter of their name compares
NUMBERS = {"step": "step = ?", "reward_from": "reward >= ?", "reward_to": "reward <= ?", "turns_from": "turns >= ?"}
RESOLVED = {"yes": "resolved = 1", "no": "resolved = 0", "lost": "resolved is null"}


@dataclass(frozen=True)
class Filters:
    """The filters of a list as its address has them: texts by name; unknown names and invalid values do not filter."""

    given: Mapping[str, str]

    def condition(self) -> tuple[str, list[Any]]:
        """The condition in SQL with its parameters."""
        parts, values = ["1"], list[Any]()
        for name in EXACT:
            if name in self.given and (self.given[name] or name == "run"):
                parts.append(f"{name} = ?")
                values.append(self.given[name])
        for name, comparison in NUMBERS.items():
            if re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", self.given.get(name, "")):
                parts.append(comparison)
                values.append(float(self.given[name]))
        if self.given.get("resolved") in RESOLVED:
            parts.append(RESOLVED[self.given["resolved"]])
        if rule := self.given.get("finding"):
            parts.append("findings <> ''" if rule == "any" else "findings like ? escape '\\'")
            values += [] if rule == "any" else [f"% {_literal(rule)} %"]
        for word in self.given.get("q", "").lower().split()[:8]:
            parts.append("words like ? escape '\\'")
            values.append(f"%{_literal(word)}%")
        return " and ".join(parts), values

    @property
    def order(self) -> str:
        """The order in SQL."""
        return ORDERS.get(self.given.get("sort", ""), ORDERS["newest"])


def _literal(word: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", word)


def runs(database: sqlite3.Connection) -> list[sqlite3.Row]:
    """Every run: path, kind, episodes, resolved, lost, newest (nanoseconds)."""
    return database.execute(
        "select runs.path, kind, count(episodes.path) episodes, coalesce(sum(resolved), 0) resolved,"
        " sum(resolved is null and episodes.path is not null) lost, max(ended) newest"
        " from runs left join episodes on run = runs.path group by runs.path order by newest desc, runs.path"
    ).fetchall()


def run_paths(database: sqlite3.Connection) -> list[str]:
    """The path of every run, without a look at its episodes."""
    return [str(path) for (path,) in database.execute("select path from runs order by path")]


def episodes(database: sqlite3.Connection, filters: Filters, page: int) -> tuple[int, list[sqlite3.Row]]:
    """How many episodes pass the filters, and those of one page (from 0)."""
    condition, values = filters.condition()
    total: int = database.execute(f"select count(*) from episodes where {condition}", values).fetchone()[0]
    found = database.execute(
        f"select * from episodes where {condition} order by {filters.order}, path limit {PAGE} offset ?",
        [*values, page * PAGE],
    )
    return total, found.fetchall()


def choices(database: sqlite3.Connection, runs: Sequence[str], column: str) -> list[str]:
    """The values of a column in these runs; each is one look into an index that begins with run and column."""
    assert column in EXACT
    found = set[str]()
    for run in runs:
        value: str | None = ""
        while value is not None:
            found.add(value)
            next_value = f"select min({column}) from episodes where run = ? and {column} > ?"
            value = database.execute(next_value, [run, value]).fetchone()[0]
    return sorted(found - {""})


def episode(database: sqlite3.Connection, path: str) -> sqlite3.Row | None:
    """The episode at a path."""
    found: sqlite3.Row | None = database.execute("select * from episodes where path = ?", [path]).fetchone()
    return found


def ended(database: sqlite3.Connection, prefix: str) -> str | None:
    """The newest episode whose path is this one and a time."""
    found = database.execute(
        "select path from episodes where path > ? and path < ? order by ended desc limit 1", [prefix, f"{prefix}:"]
    ).fetchone()
    return str(found[0]) if prefix and found else None


def members(database: sqlite3.Connection, row: Mapping[str, Any] | sqlite3.Row) -> list[sqlite3.Row]:
    """The rollouts of the same prompt: one group of a job's step, or all samples of a task in an evaluation."""
    if row["purpose"] == "sample":
        condition, values = "run = ? and task = ?", [row["run"], row["task"]]
    else:
        condition = "run = ? and purpose = ? and step = ? and group_id = ? and task = ?"
        values = [row["run"], row["purpose"], row["step"], row["group_id"], row["task"]]
    order = "order by member, ended limit 64"
    return database.execute(f"select * from episodes where {condition} {order}", values).fetchall()


def neighbours(database: sqlite3.Connection, row: sqlite3.Row) -> tuple[str, str]:
    """Paths of the episodes of the same run that ended before and after this one; '' where there is none."""
    found = []
    for comparison, order in (("<", "desc"), (">", "asc")):
        other = database.execute(
            f"select path from episodes where run = ? and (ended, path) {comparison} (?, ?)"
            f" order by ended {order}, path {order} limit 1",
            [row["run"], row["ended"], row["path"]],
        ).fetchone()
        found.append(str(other[0]) if other else "")
    return found[0], found[1]


def by_task(database: sqlite3.Connection, runs: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Resolved and valid episodes per task and run; a job counts with its newest held-out evaluation alone."""
    marks = ", ".join("?" * len(runs))
    newest = "select max(step) from episodes held_out where held_out.run = one.run and purpose = 'evaluation'"
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for task, run, solved, valid in database.execute(
        f"select task, run, sum(resolved), count(resolved) from episodes one where run in ({marks})"
        f" and (purpose = 'sample' or (purpose = 'evaluation' and step = ({newest}))) group by task, run",
        list(runs),
    ):
        found.setdefault(str(task), {})[str(run)] = int(solved or 0), int(valid)
    return found
