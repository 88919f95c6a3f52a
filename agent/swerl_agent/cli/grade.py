"""`swerl grade`: grades a file of predictions, several at the same time; a repeated command resumes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from swerl_agent.grading import NO_PATCH, VERDICTS, Grader, Verdict
from swerl_agent.grading.log_reader import LogReader, Unreadable
from swerl_agent.grading.predictions import Prediction, ReportFolder, read_predictions
from swerl_agent.grading.saved_logs import SavedRun, saved_runs, verdict_again
from swerl_agent.sandbox.lease import owning_lease
from swerl_agent.tasks import Task
from swerl_agent.visible import visible

from .command import Options, require_one, resumes
from .option_sets import grade_patches_options
from .options import open_client
from .output import print_progress, print_result
from .pod_options import grading_settings, pod_settings
from .task_options import TASKS, chosen_tasks, known_ids
from .values import PATH

GOLD = "gold"  # model name of reference fixes, as in the SWE-bench harness
JOB = "swerl-grade"  # job label of created objects


@click.command(
    "grade",
    help="Grade a file of predictions; a repeated command resumes.\n\n"
    "PREDICTIONS: SWE-bench predictions, .json (list or object) or .jsonl.",
)
@click.argument("predictions", type=PATH, required=False)
@click.option("--gold", is_flag=True, help="grade the reference fix of each chosen task instead")
@click.option(
    "--logs", type=PATH, metavar="FOLDER", help="grade the logs of an earlier run again (MODEL/ID/test_output.txt)"
)
@click.option("--tasks", type=PATH, multiple=True, required=True, help=f"{TASKS}; repeatable")
@click.option("--output", type=PATH, default=Path("reports"), help="folder for reports (default ./reports)")
@click.option(
    "--cache",
    type=PATH,
    metavar="FOLDER",
    help=f"folder of cached verdicts; may be shared (default OUTPUT/{VERDICTS})",
)
@click.option("--redo", is_flag=True, help="repeat gradings that have a report or a cached verdict")
@grade_patches_options
@resumes
async def command(options: Options) -> int:
    """Print a line for each verdict, then the counts.

    Exit codes: 0 all were graded, 2 some have an unknown task, 3 infrastructure failures prevented some.
    """
    require_one(options, predictions="PREDICTIONS", gold="--gold", logs="--logs")
    tasks = {task.instance_id: task for task in chosen_tasks(options, *options.tasks)}
    folder = ReportFolder(options.output)
    if options.logs:
        return await _grade_logs(options, folder, tasks)
    predictions = _predictions(options, tasks)
    reports: dict[str, dict[str, Any]] = {}
    if not options.redo:
        reports = {each.instance_id: report for each in predictions if (report := folder.done(each))}
    left = [each for each in predictions if each.instance_id in tasks and each.instance_id not in reports]
    print_progress(options, f"{len(predictions)} predictions, {len(reports)} graded before")
    reports |= await _graded(options, folder, tasks, left)
    return _finish(options, list(_summarised(folder, predictions, reports, len(tasks))))


async def _grade_logs(options: Options, folder: ReportFolder, tasks: Mapping[str, Task]) -> int:
    """Grade saved logs, without a cluster; exit codes as of `command`."""
    runs, reader = saved_runs(options.logs), LogReader()
    others = {run.prediction.instance_id for run in runs} - set(tasks)
    unchosen = others & known_ids(options, *options.tasks) if others else set()
    runs = [run for run in runs if run.prediction.instance_id not in unchosen]
    counts: list[ModelCounts] = []
    try:
        for model in dict.fromkeys(run.prediction.model for run in runs):
            model_runs = [run for run in runs if run.prediction.model == model]
            reports = {
                run.prediction.instance_id: await _log_graded(
                    options, folder, reader, tasks[run.prediction.instance_id], run
                )
                for run in model_runs
                if run.prediction.instance_id in tasks
            }
            counts += _summarised(folder, [run.prediction for run in model_runs], reports, len(tasks))
    finally:
        await reader.close()
    return _finish(options, counts)


async def _log_graded(
    options: Options, folder: ReportFolder, reader: LogReader, task: Task, run: SavedRun
) -> dict[str, Any]:
    try:
        verdict = await reader.call(verdict_again, task, run)
    except Unreadable as error:
        verdict = Verdict("unresolved", {"resolved": False}, detail=str(error))
    report = await asyncio.to_thread(folder.write, run.prediction, verdict)
    if run.log is not None:
        await asyncio.to_thread(folder.write_log, run.prediction, task.ground_truth.eval_script, run.log)
    _print_verdict(options, run.prediction.instance_id, verdict)
    return report


def _print_verdict(options: Options, instance_id: str, verdict: Verdict) -> None:
    print_progress(options, f"{visible(instance_id):<40} {verdict.status:<19} {visible(verdict.detail)}")


def _predictions(options: Options, tasks: Mapping[str, Task]) -> list[Prediction]:
    """Predictions for the chosen tasks and for unknown tasks; raises PredictionError, TaskError."""
    if options.gold:
        return [Prediction(task.instance_id, GOLD, task.ground_truth.patch) for task in tasks.values()]
    predictions = read_predictions(options.predictions)
    others = {each.instance_id for each in predictions} - set(tasks)
    unchosen = others & known_ids(options, *options.tasks) if others else set()
    return [each for each in predictions if each.instance_id not in unchosen]


async def _graded(
    options: Options, folder: ReportFolder, tasks: Mapping[str, Task], left: Sequence[Prediction]
) -> dict[str, dict[str, Any]]:
    """The reports of `left`; each is written and printed at once. The first error cancels the other gradings."""
    if not left:
        return {}
    requested = {prediction.instance_id: prediction for prediction in left}
    settings, sandbox = grading_settings(options, jobs=options.jobs), pod_settings(options)
    async with (
        open_client(options) as client,
        owning_lease(options.namespace or client.namespace, JOB, kubeconfig=options.kubeconfig) as lease,
    ):
        grader = Grader(
            client,
            lease.namespace,
            settings,
            sandbox=sandbox,
            cache_directory=options.cache or options.output / VERDICTS,
            lease=lease,
            keep_log=lambda task, _, log: folder.write_log(
                requested[task.instance_id], task.ground_truth.eval_script, log
            ),
        )

        async def one(prediction: Prediction) -> dict[str, Any]:
            task, verdict = tasks[prediction.instance_id], NO_PATCH
            if prediction.patch.strip():
                verdict = await grader.grade(task, prediction.patch, fresh=options.redo)
            report = await asyncio.to_thread(folder.write, prediction, verdict)
            _print_verdict(options, prediction.instance_id, verdict)
            return report

        try:
            async with grader, asyncio.TaskGroup() as group:
                running = {each.instance_id: group.create_task(one(each)) for each in left}
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
    return {name: task.result() for name, task in running.items()}


@dataclass(frozen=True)
class ModelCounts:
    """What became of one model's predictions."""

    model: str
    predictions: int
    resolved: int
    infrastructure_errors: int
    unknown: int  # predictions whose id is no task's
    summary: str  # path

    def __str__(self) -> str:
        counts = f"{self.resolved} of {self.predictions} resolved, {self.infrastructure_errors} infrastructure errors"
        return visible(f"{self.model}: {counts}, {self.unknown} unknown\nsummary: {self.summary}")


def _finish(options: Options, counts: Sequence[ModelCounts]) -> int:
    print_result(options, [asdict(each) for each in counts], map(str, counts))
    if any(each.infrastructure_errors for each in counts):
        return 3
    return 2 if any(each.unknown for each in counts) else 0


def _summarised(
    folder: ReportFolder, predictions: Sequence[Prediction], reports: Mapping[str, Mapping[str, Any]], total: int
) -> Iterator[ModelCounts]:
    """Write each model's summary; its counts."""
    for model in dict.fromkeys(each.model for each in predictions):
        names = [each.instance_id for each in predictions if each.model == model]
        model_reports = {name: reports[name] for name in names if name in reports}
        unknown = [name for name in names if name not in reports]
        if unknown:
            some = ", ".join(unknown[:10]) + (" ..." if unknown[10:] else "")
            print(f"swerl: no task has the id of these predictions: {visible(some)}", file=sys.stderr)
        yield ModelCounts(
            model,
            predictions=len(names),
            resolved=sum(bool(report["resolved"]) for report in model_reports.values()),
            infrastructure_errors=sum(report["status"] == "infra_error" for report in model_reports.values()),
            unknown=len(unknown),
            summary=str(folder.summarise(model, model_reports, unknown, total)),
        )
