"""`swerl grade`: grades a file of predictions, several at the same time; a repeated command resumes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swerl_agent.grading import NO_PATCH, VERDICTS, Grader, Verdict
from swerl_agent.grading.log_reader import LogReader, Unreadable
from swerl_agent.grading.predictions import Prediction, ReportFolder, read_predictions
from swerl_agent.grading.saved_logs import SavedRun, saved_runs, verdict_again
from swerl_agent.sandbox.lease import owning_lease
from swerl_agent.tasks import Task

from .options import add_cluster_options, open_client
from .pod_options import add_grading_options, add_pod_options, grading_settings, pod_settings
from .task_options import TASKS, add_task_options, chosen_tasks, known_ids
from .values import positive

GOLD = "gold"  # model name of reference fixes, as in the SWE-bench harness
JOB = "swerl-grade"  # job label of created objects


def add_parser(parser: argparse.ArgumentParser) -> None:
    """Options of `swerl grade`, which has no verbs."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "predictions", type=Path, nargs="?", help="SWE-bench predictions: .json (list or object) or .jsonl"
    )
    which.add_argument("--gold", action="store_true", help="grade the reference fix of each chosen task instead")
    which.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="grade the logs of an earlier run again (MODEL/ID/test_output.txt)"
    )
    parser.add_argument("--tasks", type=Path, nargs="+", required=True, help=TASKS)
    parser.add_argument("--output", type=Path, default=Path("reports"), help="folder for reports (default ./reports)")
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="FOLDER",
        help=f"folder of cached verdicts; may be shared (default OUTPUT/{VERDICTS})",
    )
    parser.add_argument("--redo", action="store_true", help="repeat gradings that have a report or a cached verdict")
    add_task_options(parser)
    parser.add_argument("--jobs", "-j", type=positive, default=4, help="grading Jobs at the same time (default 4)")
    add_grading_options(parser)
    add_pod_options(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=grade_predictions)


async def grade_predictions(options: argparse.Namespace) -> int:
    """Print a line for each verdict, then the counts.

    Exit codes: 0 all were graded, 2 some have an unknown task, 3 infrastructure failures prevented some.
    """
    tasks = {task.instance_id: task for task in chosen_tasks(options, *options.tasks)}
    folder = ReportFolder(options.output)
    if options.logs:
        return await _grade_logs(options, folder, tasks)
    predictions = _predictions(options, tasks)
    reports: dict[str, dict[str, Any]] = {}
    if not options.redo:
        reports = {each.instance_id: report for each in predictions if (report := folder.done(each))}
    left = [each for each in predictions if each.instance_id in tasks and each.instance_id not in reports]
    print(f"{len(predictions)} predictions, {len(reports)} graded before", flush=True)
    reports |= await _graded(options, folder, tasks, left)
    failed, unknown = _summarised(folder, predictions, reports, len(tasks))
    return 3 if failed else 2 if unknown else 0


async def _grade_logs(options: argparse.Namespace, folder: ReportFolder, tasks: Mapping[str, Task]) -> int:
    """Grade saved logs, without a cluster; exit codes as of `grade_predictions`."""
    runs, reader = saved_runs(options.logs), LogReader()
    others = {run.prediction.instance_id for run in runs} - set(tasks)
    unchosen = others & known_ids(options, *options.tasks) if others else set()
    runs = [run for run in runs if run.prediction.instance_id not in unchosen]
    failed = strange = 0
    try:
        for model in dict.fromkeys(run.prediction.model for run in runs):
            model_runs = [run for run in runs if run.prediction.model == model]
            reports = {
                run.prediction.instance_id: await _log_graded(folder, reader, tasks[run.prediction.instance_id], run)
                for run in model_runs
                if run.prediction.instance_id in tasks
            }
            counts = _summarised(folder, [run.prediction for run in model_runs], reports, len(tasks))
            failed, strange = failed + counts[0], strange + counts[1]
    finally:
        await reader.close()
    return 3 if failed else 2 if strange else 0


async def _log_graded(folder: ReportFolder, reader: LogReader, task: Task, run: SavedRun) -> dict[str, Any]:
    try:
        verdict = await reader.call(verdict_again, task, run)
    except Unreadable as error:
        verdict = Verdict("unresolved", {"resolved": False}, detail=str(error))
    report = await asyncio.to_thread(folder.write, run.prediction, verdict)
    if run.log is not None:
        await asyncio.to_thread(folder.write_log, run.prediction, task.ground_truth.eval_script, run.log)
    _print_verdict(run.prediction.instance_id, verdict)
    return report


def _print_verdict(instance_id: str, verdict: Verdict) -> None:
    print(f"{instance_id:<40} {verdict.status:<19} {verdict.detail}", flush=True)


def _predictions(options: argparse.Namespace, tasks: Mapping[str, Task]) -> list[Prediction]:
    """Predictions for the chosen tasks and for unknown tasks; raises PredictionError, TaskError."""
    if options.gold:
        return [Prediction(task.instance_id, GOLD, task.ground_truth.patch) for task in tasks.values()]
    predictions = read_predictions(options.predictions)
    others = {each.instance_id for each in predictions} - set(tasks)
    unchosen = others & known_ids(options, *options.tasks) if others else set()
    return [each for each in predictions if each.instance_id not in unchosen]


async def _graded(
    options: argparse.Namespace, folder: ReportFolder, tasks: Mapping[str, Task], left: Sequence[Prediction]
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
            _print_verdict(prediction.instance_id, verdict)
            return report

        try:
            async with grader, asyncio.TaskGroup() as group:
                running = {each.instance_id: group.create_task(one(each)) for each in left}
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
    return {name: task.result() for name, task in running.items()}


def _summarised(
    folder: ReportFolder,
    predictions: Sequence[Prediction],
    reports: Mapping[str, Mapping[str, Any]],
    total: int,
) -> tuple[int, int]:
    """Write each model's summary and print its counts; the numbers of infrastructure errors and of unknown tasks."""
    failed = unknown_tasks = 0
    for model in dict.fromkeys(each.model for each in predictions):
        names = [each.instance_id for each in predictions if each.model == model]
        model_reports = {name: reports[name] for name in names if name in reports}
        unknown = [name for name in names if name not in reports]
        path = folder.summarise(model, model_reports, unknown, total)
        resolved = sum(bool(report["resolved"]) for report in model_reports.values())
        errors = sum(report["status"] == "infra_error" for report in model_reports.values())
        failed, unknown_tasks = failed + errors, unknown_tasks + len(unknown)
        if unknown:
            some = ", ".join(unknown[:10]) + (" ..." if unknown[10:] else "")
            print(f"swerl: no task has the id of these predictions: {some}", file=sys.stderr)
        print(f"{model}: {resolved} of {len(names)} resolved, {errors} infrastructure errors, {len(unknown)} unknown")
        print(f"summary: {path}")
    return failed, unknown_tasks
