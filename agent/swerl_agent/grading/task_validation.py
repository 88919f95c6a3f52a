"""Whether tasks grade as they should: the reference fix passes, no change fails, every time; checked by real Jobs.

Guarantees: a run counts only for the task with the same content. A run that a limit of time or memory decided counts
only under the same limits. An infrastructure failure says nothing about a task. A task is flaky if its tests differ
between runs, whatever their verdict. Each run is stored as soon as it is known, so an interrupted check continues where
it stopped. Repeats are Jobs of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from swerl_agent.storage import Journal, JournalError
from swerl_agent.tasks import Task, TaskError
from swerl_agent.tasks.quarantine import Quarantined, Reason
from swerl_agent.tasks.swebench_library import library

from .cache import cache_key, criteria
from .grader import Grader
from .swebench_report import check_parser
from .verdict import Verdict

ValidationKind = Literal["gold", "empty"]
KINDS: tuple[ValidationKind, ValidationKind] = ("gold", "empty")
EXPECTED_STATUSES: Mapping[ValidationKind, Sequence[str]] = {"gold": ("resolved",), "empty": ("unresolved", "timeout")}
FAULT_REASONS: Mapping[ValidationKind, Reason] = {"gold": "gold_fails", "empty": "empty_passes"}


@dataclass(frozen=True)
class ValidationRun:
    """One grading of the reference fix or of no change."""

    instance_id: str
    key: str  # of the task's content
    kind: ValidationKind
    status: str
    seconds: float  # the tests' own time
    failed: tuple[str, ...]  # tests that decide and did not pass
    detail: str
    dirty: tuple[str, ...] = ()  # files in which the image's tree differs from its commit
    uncontrasted: str = ""  # why there was no contrast, '' where there was
    limits: str = ""  # that decided it, '' where none did

    @classmethod
    def of(cls, task: Task, kind: ValidationKind, verdict: Verdict, limits: str = "") -> ValidationRun:
        """What a verdict says that was made under `limits`."""
        tests = verdict.report.get("tests_status") or {}
        failed = sorted(name for part in ("FAIL_TO_PASS", "PASS_TO_PASS") for name in _failures(tests, part))
        seconds = float(verdict.report.get("seconds", 0.0))
        dirty = tuple(verdict.report.get("dirty") or ())
        unavailable = verdict.report.get("contrast") == "unavailable"
        why = str(verdict.report.get("contrast_reason") or "no reason is known") if unavailable else ""
        key = content_key(task)
        decisive = "" if verdict.lasting else limits
        run = task.instance_id, key, kind, verdict.status, seconds, tuple(failed), verdict.detail
        return cls(*run, dirty, why, decisive)

    @property
    def decided(self) -> bool:
        """Whether it says something about the task."""
        return self.status != "infra_error"


def _failures(tests: Mapping[str, Any], part: str) -> Iterable[str]:
    return (tests.get(part) or {}).get("failure") or ()


@dataclass(frozen=True)
class TaskValidation:
    """All runs of one task so far, of which `wanted` of each kind make it fit."""

    task: Task
    runs: tuple[ValidationRun, ...]
    wanted: int = 1
    unreadable: str = ""  # why swebench cannot read its test output

    def of(self, kind: ValidationKind) -> list[ValidationRun]:
        """The runs that say something, of one kind."""
        return [run for run in self.runs if run.kind == kind and run.decided]

    @property
    def undecided(self) -> str:
        """The infrastructure's last failure while runs are missing and none shows a fault of the task, '' otherwise."""
        if self._found_fault() or all(len(self.of(kind)) >= self.wanted for kind in KINDS):
            return ""
        failures = [run.detail for run in self.runs if not run.decided]
        return (failures or ["it was not run"])[-1]

    @property
    def dirty(self) -> tuple[str, ...]:
        """Files in which the image's tree differs from its commit, up to 20."""
        return next((run.dirty for run in self.runs if run.dirty), ())

    @property
    def uncontrasted(self) -> str:
        """Why the last run of the reference fix had no contrast, '' where it had."""
        return next((run.uncontrasted for run in reversed(self.of("gold"))), "")

    @property
    def quarantined(self) -> Quarantined | None:
        """Why the task must not be used, or None."""
        found = self._found_fault()
        if found is None:
            return None
        evidence: dict[str, Any] = {kind: [_evidence(run) for run in self.of(kind)] for kind in KINDS}
        return Quarantined(self.task.instance_id, *found, evidence)

    @property
    def fit(self) -> bool:
        """Whether every run went as it should."""
        return not self.undecided and self._found_fault() is None

    def _found_fault(self) -> tuple[Reason, str] | None:
        if self.unreadable:
            return "unreadable", self.unreadable
        for kind in KINDS:
            differing = _differing_outcomes(self.of(kind))
            if differing:
                return "flaky", f"{kind}: {differing}"
        for kind in KINDS:
            wrong = [run for run in self.of(kind) if run.status not in EXPECTED_STATUSES[kind]]
            if wrong:
                return FAULT_REASONS[kind], f"{kind}: {wrong[0].status}, {wrong[0].detail}"
        return None


def _differing_outcomes(runs: Sequence[ValidationRun]) -> str:
    """How runs of the same patch differ, '' when they do not."""
    statuses = [run.status for run in runs]
    if len(set(statuses)) > 1:
        return ", ".join(f"{status} {statuses.count(status)} of {len(runs)}" for status in sorted(set(statuses)))
    failed = [set(run.failed) for run in runs]
    sometimes = sorted(failed[0].union(*failed) - failed[0].intersection(*failed)) if failed else []
    return f"{', '.join(sometimes[:5])} failed in some of {len(runs)} runs only" if sometimes else ""


def _evidence(run: ValidationRun) -> dict[str, Any]:
    return {"status": run.status, "seconds": run.seconds, "failed": run.failed, "detail": run.detail}


def content_key(task: Task) -> str:
    """Hex digest of all that a grading of the task depends on."""
    ground_truth = task.ground_truth
    parts = [task.image, task.base_commit, ground_truth.eval_script, ground_truth.patch, ground_truth.test_patch]
    return cache_key([*parts, *criteria(ground_truth)])


class ValidationJournal:
    """The runs of a folder's checks, in a Journal.

    `limits`: of the gradings that this check makes; runs that other limits decided do not count.
    """

    def __init__(self, path: Path, limits: str = "") -> None:
        """Read what is there; raises TaskError."""
        self._path, self.limits = path, limits
        self._runs: dict[tuple[str, ValidationKind], list[ValidationRun]] = {}
        try:
            self._journal = Journal(path, _run)
            for run in self._journal.rows():
                self._keep(run)
        except OSError as error:
            raise TaskError(f"{path}: cannot be written: {error.strerror}") from error
        except JournalError as error:
            raise TaskError(f"not a run of a check: {error}") from error

    def runs(self, task: Task) -> list[ValidationRun]:
        """What is known of a task in its current state."""
        key, counting = content_key(task), ("", self.limits)
        known = [run for kind in KINDS for run in self._runs.get((task.instance_id, kind), [])]
        return [run for run in known if run.key == key and run.limits in counting]

    def add(self, run: ValidationRun) -> None:
        """Write a run down; raises TaskError, and what was written before stays."""
        try:
            self._journal.append(asdict(run))
        except OSError as error:
            raise TaskError(f"{self._path}: cannot be written: {error.strerror}; the runs before are kept") from error
        self._keep(run)

    def _keep(self, run: ValidationRun) -> None:
        self._runs.setdefault((run.instance_id, run.kind), []).append(run)


def _run(row: Mapping[str, Any]) -> ValidationRun:
    return ValidationRun(**{**row, "failed": tuple(row["failed"]), "dirty": tuple(row.get("dirty") or ())})


async def check(
    grader: Grader,
    tasks: Sequence[Task],
    journal: ValidationJournal,
    *,
    repeat: int,
    report: Callable[[TaskValidation], None],
) -> list[TaskValidation]:
    """Every task with `repeat` runs of each kind, less where the infrastructure fails; `report` gets each at once.

    Raises GradingError, KubeError and TaskError of the first task that has one; the others then end.
    """

    async def one(task: Task) -> TaskValidation:
        checked = await _checked(grader, task, journal, repeat)
        report(checked)
        return checked

    await asyncio.to_thread(library)  # once, before threads ask for it at the same time
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(task)) for task in tasks]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in running]


async def _checked(grader: Grader, task: Task, journal: ValidationJournal, repeat: int) -> TaskValidation:
    try:
        await asyncio.to_thread(check_parser, task.ground_truth)
    except ValueError as error:
        return TaskValidation(task, (), repeat, str(error))
    await asyncio.gather(*(_repeated(grader, task, kind, journal, repeat) for kind in KINDS))
    return TaskValidation(task, tuple(journal.runs(task)), repeat)


async def _repeated(grader: Grader, task: Task, kind: ValidationKind, journal: ValidationJournal, repeat: int) -> None:
    """Runs one after the other: at the same time they would be one Job."""
    done = sum(run.kind == kind and run.decided for run in journal.runs(task))
    for _ in range(done, repeat):
        verdict = await grader.grade(task, task.ground_truth.patch if kind == "gold" else "")
        run = ValidationRun.of(task, kind, verdict, journal.limits)
        journal.add(run)
        if not run.decided:
            return
