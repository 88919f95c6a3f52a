"""Checking tasks through real grading Jobs.

Guarantees: each run is written down as soon as it is known, so an interrupted check goes on where it stopped; what the
infrastructure failed at is tried again by the next check; repeats are Jobs of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swerl_agent.storage import Journal, JournalError
from swerl_agent.tasks import Task, TaskError

from .grader import Grader
from .soundness import KINDS, Checked, Kind, Run, content_key
from .swebench_report import check_parser, library


class Ledger:
    """The runs of a folder's checks, in a Journal."""

    def __init__(self, path: Path) -> None:
        """Read what is there; raises TaskError."""
        self._path = path
        self._runs: dict[tuple[str, Kind], list[Run]] = {}
        try:
            self._journal = Journal(path, _run)
            for run in self._journal.rows():
                self._keep(run)
        except OSError as error:
            raise TaskError(f"{path}: cannot be written: {error.strerror}") from error
        except JournalError as error:
            raise TaskError(f"not a run of a check: {error}") from error

    def runs(self, task: Task) -> list[Run]:
        """What is known of a task as it is now."""
        key = content_key(task)
        return [run for kind in KINDS for run in self._runs.get((task.instance_id, kind), []) if run.key == key]

    def add(self, run: Run) -> None:
        """Write a run down; raises TaskError, and what was written before stays."""
        try:
            self._journal.append(asdict(run))
        except OSError as error:
            raise TaskError(f"{self._path}: cannot be written: {error.strerror}; the runs before are kept") from error
        self._keep(run)

    def _keep(self, run: Run) -> None:
        self._runs.setdefault((run.instance_id, run.kind), []).append(run)


def _run(row: Mapping[str, Any]) -> Run:
    return Run(**{**row, "failed": tuple(row["failed"])})


async def check(
    grader: Grader, tasks: Sequence[Task], ledger: Ledger, *, repeat: int, tell: Callable[[Checked], None]
) -> list[Checked]:
    """Every task with `repeat` runs of each kind, less where the infrastructure fails; `tell` gets each as it is known.

    Raises GradingError, KubeError and TaskError of the first task that has one; the others then end.
    """

    async def one(task: Task) -> Checked:
        checked = await _checked(grader, task, ledger, repeat)
        tell(checked)
        return checked

    await asyncio.to_thread(library)  # once, before threads ask for it at the same time
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(task)) for task in tasks]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in running]


async def _checked(grader: Grader, task: Task, ledger: Ledger, repeat: int) -> Checked:
    try:
        await asyncio.to_thread(check_parser, task.evaluation)
    except ValueError as error:
        return Checked(task, (), repeat, str(error))
    await asyncio.gather(*(_repeated(grader, task, kind, ledger, repeat) for kind in KINDS))
    return Checked(task, tuple(ledger.runs(task)), repeat)


async def _repeated(grader: Grader, task: Task, kind: Kind, ledger: Ledger, repeat: int) -> None:
    """Runs one after the other: at the same time they would be one Job."""
    done = sum(run.kind == kind and run.decided for run in ledger.runs(task))
    for _ in range(done, repeat):
        verdict = await grader.grade(task, task.evaluation.patch if kind == "gold" else "")
        run = Run.of(task, kind, verdict)
        ledger.add(run)
        if not run.decided:
            return
