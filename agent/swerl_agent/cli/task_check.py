"""`swerl tasks check`: a task is fit if every run resolves its reference fix and no run resolves the empty patch.

Guarantee: completed runs are in the output folder, whatever ends the check. A repeated check continues from there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from swerl_agent.grading import Grader
from swerl_agent.grading.task_validation import KINDS, TaskValidation, ValidationJournal, check
from swerl_agent.sandbox.lease import owning_lease
from swerl_agent.storage import file_name, write_atomic
from swerl_agent.tasks import Task
from swerl_agent.tasks.loading import refuse_repeated
from swerl_agent.tasks.quarantine import update_quarantine
from swerl_agent.tasks.row_files import QUARANTINE

from .options import add_cluster_options, open_client
from .pod_options import add_grading_options, add_pod_options, grading_settings, pod_settings
from .task_options import TASKS, add_task_options, chosen_tasks
from .values import positive

JOB = "swerl-tasks-check"  # job label of created objects
RUNS = "runs.jsonl"
LOGS = "logs"


def add_parser(verbs: Any) -> None:
    """`check`."""
    parser = verbs.add_parser("check", help="check that each reference fix passes and that the empty patch fails")
    parser.add_argument("path", type=Path, nargs="+", help=TASKS)
    parser.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="runs of each patch, to find flaky tests (default 1)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("tasks-check"),
        help="folder for runs and quarantine (./tasks-check)",
    )
    add_task_options(parser)
    add_cluster_options(parser)
    parser.add_argument("--jobs", "-j", type=positive, default=4, help="grading Jobs at the same time (default 4)")
    add_grading_options(parser)
    add_pod_options(parser)
    parser.set_defaults(run=check_tasks)


async def check_tasks(options: argparse.Namespace) -> int:
    """Print a line for each task, then the counts. Exit codes: 1 some task is unfit, 3 some task is undecided."""
    tasks = chosen_tasks(options, *options.path)
    refuse_repeated(tasks, where=", ".join(map(str, options.path)))
    journal = ValidationJournal(options.output / RUNS)
    started = time.monotonic()
    print(f"{'TASK':<40} {'GOLD':<19} {'EMPTY':<19} REMARK")
    found: list[TaskValidation] = []
    try:
        await _run(options, tasks, journal, found)
    finally:
        _write_quarantine(options.output / QUARANTINE, tasks, journal, found)
    return _summary(found, started, options.output)


async def _run(
    options: argparse.Namespace, tasks: Sequence[Task], journal: ValidationJournal, found: list[TaskValidation]
) -> None:
    def report(checked: TaskValidation) -> None:
        found.append(checked)
        print(f"{checked.task.instance_id:<40} {' '.join(_column(checked))} {remark(checked)}", flush=True)

    settings = grading_settings(options, jobs=options.jobs, cache=False)
    sandbox = pod_settings(options)
    async with (
        open_client(options) as client,
        owning_lease(options.namespace or client.namespace, JOB, kubeconfig=options.kubeconfig) as lease,
        Grader(
            client,
            lease.namespace,
            settings,
            sandbox=sandbox,
            lease=lease,
            keep_log=partial(_keep_log, options.output / LOGS),
        ) as grader,
    ):
        await check(grader, tasks, journal, repeat=options.repeat, report=report)


def _keep_log(folder: Path, task: Task, patch: str, log: bytes) -> None:
    name = f"{file_name(task.instance_id)}.{'gold' if patch else 'empty'}"
    number = sum(1 for _ in folder.glob(f"{name}.*"))
    write_atomic({folder / f"{name}.{number}.txt": [log]}, durable=False)


def _write_quarantine(
    path: Path, tasks: Sequence[Task], journal: ValidationJournal, found: Sequence[TaskValidation]
) -> None:
    """Write the known faults of `tasks`; earlier checks count for tasks that this check did not reach."""
    now = {checked.task.instance_id: checked for checked in found}
    known = [now.get(task.instance_id) or TaskValidation(task, tuple(journal.runs(task))) for task in tasks]
    faults = [fault for checked in known if (fault := checked.quarantined)]
    update_quarantine(path, faults, checked={task.instance_id for task in tasks})


def _column(checked: TaskValidation) -> list[str]:
    columns = []
    for kind in KINDS:
        statuses = [run.status for run in checked.runs if run.kind == kind]
        last = statuses[-1] if statuses else "-"
        columns.append(f"{last} {statuses.count(last)}/{len(statuses)}" if len(statuses) > 1 else last)
    return [f"{text:<19}" for text in columns]


def remark(checked: TaskValidation) -> str:
    """The fault, or how long the tests take; and how the image's tree differs from its commit."""
    return "; ".join(filter(None, [_finding(checked), _dirty(checked.dirty)]))


def _dirty(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"the image's work tree is dirty: {', '.join(paths[:3])}{more}" if paths else ""


def _finding(checked: TaskValidation) -> str:
    fault = checked.quarantined
    if fault:
        return f"{fault.reason}: {fault.detail}"
    if checked.undecided:
        return f"undecided: {checked.undecided}"
    return f"{max(run.seconds for run in checked.of('gold')):.1f} s of tests"


def _summary(found: Sequence[TaskValidation], started: float, output: Path) -> int:
    fit = sum(checked.fit for checked in found)
    undecided = sum(bool(checked.undecided) for checked in found)
    unfit = len(found) - fit - undecided
    print(f"{fit} of {len(found)} tasks are fit, in {time.monotonic() - started:.0f} s")
    if unfit:
        print(f"{unfit} are in quarantine: {output / QUARANTINE}")
    if undecided:
        print(f"{undecided} are undecided because of infrastructure failures; run the same command again to retry them")
    return 1 if unfit else 3 if undecided else 0
