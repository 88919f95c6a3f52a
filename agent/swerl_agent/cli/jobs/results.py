"""`swerl metrics`, `swerl export` and `swerl compare`: what jobs and evaluations wrote."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from swerl_agent.evaluation.comparison import Comparison, Solved, TaskChange, compare
from swerl_agent.jobs import find_job, table
from swerl_agent.jobs.export import copy_export
from swerl_agent.jobs.output import job_output
from swerl_agent.jobs.plot import plot

from ..command import Options, keeps, runs
from ..episode_folder import META, episode_files, indexed
from ..options import cluster_options, open_client
from ..output import output_format_option, output_option, print_progress, print_result
from ..values import NATURAL, PATH, POSITIVE

PLOTTED = ("rollout/raw_reward", "rollout/resolved_rate", "train/loss", "perf/step_time")
METRICS = "metrics.jsonl"


@click.command(
    "metrics",
    help="Plot metrics of the SweRLJob NAME, or of the job's folder with that name on this machine. Without"
    " --metric: reward, resolved rate, loss and time of the steps.",
)
@click.argument("name")
@click.option("--metric", "-m", multiple=True, metavar="METRIC", help="name of a metric in docs/metrics.md; repeatable")
@click.option("--list", "listed", is_flag=True, help="print the newest value of each metric")
@click.option("--width", type=POSITIVE, default=60, help="characters of a curve (default 60)")
@output_option
@cluster_options
@runs
async def plot_metrics(options: Options) -> int:
    """0; 1 when a metric has no values."""
    from swerl_agent.console.series import read_metrics  # needs packages that other commands do not

    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.name) / METRICS
        if not path.is_file():
            path = Path(folder) / METRICS
            path.write_bytes(await _downloaded(options))
        metrics = await asyncio.to_thread(read_metrics, path)
    newest = metrics.newest()
    chosen = options.metric or [name for name in PLOTTED if name in newest]
    lines = [f"{name} {value:g}" for name, value in newest.items()]
    if not options.listed:
        lines = [
            line
            for name in chosen
            for line in (
                f"{name}: {newest[name]:.4g}" if name in newest else f"{name}: no values",
                *plot(metrics.series.get(name, ()), width=options.width),
                "",
            )
        ]
    document = {name: [list(point) for point in metrics.series.get(name, ())] for name in chosen}
    print_result(options, newest if options.listed else document, lines or ["no steps so far"])
    return 0 if all(name in newest for name in options.metric) else 1


async def _downloaded(options: Options) -> bytes:
    async with open_client(options) as client:
        job = await find_job(client, options.namespace or client.namespace, options.name)
        async with job_output(client, job) as output:
            return await output.read(f"cat {METRICS} 2>/dev/null || true")


@click.command(
    "export", help="Copy the weights of the SweRLJob NAME, in Hugging Face format, to the new folder FOLDER."
)
@click.argument("name")
@click.argument("folder", type=PATH)
@click.option("--step", type=NATURAL, metavar="N", help="training step (default: the newest export)")
@output_format_option
@cluster_options
@keeps("FOLDER is complete or absent")
async def export_weights(options: Options) -> int:
    """0."""
    async with open_client(options) as client:
        job = await find_job(client, options.namespace or client.namespace, options.name)
        async with job_output(client, job) as output:
            print_progress(options, f"copying from {output.folder} through Pod {output.pod}")
            copied = await copy_export(output, Path(options.folder), options.step)
    document = {"name": options.name, "export": copied, "folder": str(options.folder)}
    print_result(options, document, [f"{copied} of {options.name} is in {options.folder}"])
    return 0


@click.command(
    "compare",
    help="Compare OTHER with ONE, task by task. Each is the folder of a job or an evaluation on this machine, or the"
    " name of a SweRLJob. Of a job, the newest held-out evaluation counts, and no training episodes.",
)
@click.argument("one", type=PATH)
@click.argument("other", type=PATH)
@click.option("--tasks", "shown", type=NATURAL, default=20, metavar="N", help="tasks to print (default 20)")
@output_option
@cluster_options
@runs
async def compare_runs(options: Options) -> int:
    """0; 1 when no task is in both."""
    async with episode_files(options, options.one, META) as one, episode_files(options, options.other, META) as other:
        found = compare(await asyncio.to_thread(_solved, one), await asyncio.to_thread(_solved, other))
    tasks = [asdict(task) | {"change": task.change} for task in found.tasks]
    document = {key: value for key, value in asdict(found).items() if key != "tasks"} | {"tasks": tasks}
    print_result(options, document, _comparison_lines(found, options.shown))
    return 0 if found.shared else 1


def _solved(folder: Path) -> dict[str, Solved]:
    """Resolved and valid samples of each task below a folder."""
    from swerl_agent.console.query import by_task, run_paths

    with indexed(folder) as database:
        found = by_task(database, run_paths(database))
    return {task: _summed(runs) for task, runs in found.items()}


def _summed(runs: dict[str, Solved]) -> Solved:
    return sum(solved for solved, _ in runs.values()), sum(valid for _, valid in runs.values())


def _comparison_lines(found: Comparison, shown: int) -> list[str]:
    if not found.shared:
        return ["no task has valid samples in both; training episodes do not count"]
    verdict = "differs from 0" if found.is_significant else "may be chance"
    points = [100 * value for value in (found.mean, found.low, found.high)]
    summary = (
        f"{found.shared} tasks in both: {points[0]:+.1f} points (95 % interval {points[1]:+.1f} to {points[2]:+.1f},"
        f" {verdict}); {found.better} better, {found.worse} worse"
    )
    rows = table(("TASK", "ONE", "OTHER", "CHANGE"), (_row(task) for task in found.tasks[:shown]))
    left = len(found.tasks) - shown
    return [summary, *rows, *([f"{left} tasks more"] if left > 0 else [])]


def _row(task: TaskChange) -> tuple[str, ...]:
    def rate(solved: Any) -> str:
        return f"{solved[0]}/{solved[1]}" if solved else "-"

    return task.task, rate(task.one), rate(task.other), "" if task.change is None else f"{100 * task.change:+.0f}"
