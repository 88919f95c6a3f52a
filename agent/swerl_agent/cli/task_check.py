"""`swerl tasks check`: a task is fit if every run resolves its reference fix and no run resolves the empty patch.

Guarantee: completed runs stay in the output folder, however the check ends. A repeated check continues from there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from swerl_api import GradingSpec

from swerl_agent.grading import VERDICTS, Grader
from swerl_agent.grading.cache import limits
from swerl_agent.grading.task_validation import KINDS, TaskValidation, ValidationJournal, check
from swerl_agent.sandbox.lease import owning_lease
from swerl_agent.storage import file_name, write_atomic
from swerl_agent.tasks import Task
from swerl_agent.tasks.loading import refuse_repeated
from swerl_agent.tasks.quarantine import update_quarantine
from swerl_agent.tasks.row_files import QUARANTINE
from swerl_agent.visible import visible

from .command import Options, resumes
from .folders import new_folder
from .option_sets import grade_patches_options
from .options import open_client
from .output import print_progress, print_result
from .pod_options import grading_settings, pod_settings
from .task_options import chosen_tasks, paths_argument
from .values import PATH, POSITIVE

JOB = "swerl-tasks-check"  # job label of created objects
RUNS = "runs.jsonl"
LOGS = "logs"


@click.command("check", help="Check that each reference fix passes and that the empty patch fails.")
@paths_argument
@click.option("--repeat", type=POSITIVE, default=1, help="runs of each patch, to find flaky tests (default 1)")
@click.option("--output", type=PATH, default=Path("tasks-check"), help="folder for runs and quarantine (./tasks-check)")
@grade_patches_options
@resumes
async def check_tasks(options: Options) -> int:
    """Print a line for each task, then the counts. Exit codes: 1 some task is unfit, 3 some task is undecided."""
    tasks = chosen_tasks(options, *options.path)
    refuse_repeated(tasks, where=", ".join(map(str, options.path)))
    started = time.monotonic()
    print_progress(options, f"{'TASK':<40} {'GOLD':<19} {'EMPTY':<19} REMARK")
    found: list[TaskValidation] = []
    settings = grading_settings(options, jobs=options.jobs, cache=False)
    with new_folder(options.output):
        journal = ValidationJournal(options.output / RUNS, " ".join(limits(settings)))
        try:
            await _run(options, settings, tasks, journal, found)
        finally:
            if found:
                _write_quarantine(options.output / QUARANTINE, tasks, journal, found)
    return _summarise(options, found, time.monotonic() - started)


async def _run(
    options: Options,
    settings: GradingSpec,
    tasks: Sequence[Task],
    journal: ValidationJournal,
    found: list[TaskValidation],
) -> None:
    def report(checked: TaskValidation) -> None:
        found.append(checked)
        line = visible(f"{checked.task.instance_id:<40} {' '.join(_column(checked))} {remark(checked)}")
        print_progress(options, line)

    sandbox = pod_settings(options)
    async with (
        open_client(options) as client,
        owning_lease(options.namespace or client.namespace, JOB, kubeconfig=options.kubeconfig) as lease,
        Grader(
            client,
            lease.namespace,
            settings,
            sandbox=sandbox,
            cache_directory=options.output / VERDICTS,  # of calibrations alone: each run is a Job of its own
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
    """The fault, or how long the tests take; why there is no contrast; how the image's tree differs from its commit."""
    return "; ".join(filter(None, [_finding(checked), _uncontrasted(checked.uncontrasted), _dirty(checked.dirty)]))


def _uncontrasted(reason: str) -> str:
    return f"contrast: unavailable, {reason}" if reason else ""


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


def _summarise(options: Options, found: Sequence[TaskValidation], seconds: float) -> int:
    fit = sum(checked.fit for checked in found)
    undecided = sum(bool(checked.undecided) for checked in found)
    unfit, quarantine = len(found) - fit - undecided, options.output / QUARANTINE
    lines = [f"{fit} of {len(found)} tasks are fit, in {seconds:.0f} s"]
    if unfit:
        lines.append(f"{unfit} are in quarantine: {quarantine}")
    if undecided:
        lines.append(
            f"{undecided} are undecided because of infrastructure failures; run the same command again to retry them"
        )
    counts = {"fit": fit, "unfit": unfit, "undecided": undecided, "quarantine": str(quarantine)}
    print_result(options, counts | {"tasks": [_document(checked) for checked in found]}, lines)
    return 1 if unfit else 3 if undecided else 0


def _document(checked: TaskValidation) -> dict[str, Any]:
    statuses: dict[str, Any] = {kind: [run.status for run in checked.runs if run.kind == kind] for kind in KINDS}
    return {"instance_id": checked.task.instance_id, "fit": checked.fit, **statuses, "remark": remark(checked)}
