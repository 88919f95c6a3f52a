"""`swerl tasks`: list a task set, and prove that it grades.

A task is fit for training when its reference fix is resolved and no change is not, both through real grading Jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from swerl_api import Grading, Resources

from swerl_agent.grading import Grader, Placement, Verdict
from swerl_agent.tasks import Task

from .options import add_cluster_options, add_task_options, chosen_tasks, open_client


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`list` and `check`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="show the tasks of a set")
    listing.add_argument("path", type=Path, nargs="+", help="task repository, .jsonl file or folder of them")
    add_task_options(listing)
    listing.set_defaults(run=list_tasks)
    check = verbs.add_parser("check", help="every reference fix must pass, no change must fail")
    check.add_argument("path", type=Path, nargs="+", help="task repository, .jsonl file or folder of them")
    add_task_options(check)
    add_cluster_options(check)
    check.add_argument("--jobs", "-j", type=int, default=4, help="grading Jobs at once (default 4)")
    check.add_argument("--timeout", type=int, default=600, help="seconds for the tests of one task (default 600)")
    check.add_argument("--cpu", default="1", help="CPU of a grading Pod (default 1)")
    check.add_argument("--memory", default="2Gi", help="memory of a grading Pod (default 2Gi)")
    check.add_argument("--workdir", default="/testbed", help="folder of the repository in the images")
    check.set_defaults(run=check_tasks)


@dataclass(frozen=True)
class Checked:
    """One task's two verdicts."""

    task: Task
    gold: Verdict
    empty: Verdict

    @property
    def fit(self) -> bool:
        """Whether the task can be trained on."""
        return self.gold.status == "resolved" and self.empty.status == "unresolved"

    @property
    def remark(self) -> str:
        """What is wrong, or how long the tests take."""
        if self.fit:
            return f"{self.gold.report['seconds']:.1f} s of tests"
        if self.gold.status != "resolved":
            return f"gold: {self.gold.detail}"
        return f"empty: {self.empty.detail}"


async def list_tasks(options: argparse.Namespace) -> int:
    """Print id, tests and image of every task."""
    for path in options.path:
        for task in chosen_tasks(options, path):
            evaluation = task.evaluation
            counts = f"{len(evaluation.fail_to_pass)}+{len(evaluation.pass_to_pass)}"
            print(f"{task.instance_id:<40} {counts:>9}  {task.image}")
    return 0


async def check_tasks(options: argparse.Namespace) -> int:
    """Print a line per task as it is decided, then the count; 1 when any task is unfit."""
    tasks = [task for path in options.path for task in chosen_tasks(options, path)]
    amounts = {"cpu": options.cpu, "memory": options.memory}
    settings = Grading(
        timeout_seconds=options.timeout,
        resources=Resources(requests=amounts, limits=amounts),
        max_concurrent=options.jobs,
        cache=False,
    )
    started = time.monotonic()
    print(f"{'TASK':<40} {'GOLD':<19} {'EMPTY':<19} REMARK")
    async with open_client(options) as client:
        namespace = options.namespace or client.namespace
        async with Grader(client, namespace, settings, placement=Placement(workdir=options.workdir)) as grader:
            results = await _all_checked(grader, tasks)
    unfit = [checked for checked in results if not checked.fit]
    print(f"{len(results) - len(unfit)} of {len(results)} tasks are fit, in {time.monotonic() - started:.0f} s")
    return 1 if unfit else 0


async def _all_checked(grader: Grader, tasks: list[Task]) -> list[Checked]:
    """Every task's verdicts; the first error ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(_checked(grader, task)) for task in tasks]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in running]


async def _checked(grader: Grader, task: Task) -> Checked:
    gold, empty = await asyncio.gather(grader.grade(task, task.evaluation.patch), grader.grade(task, ""))
    checked = Checked(task, gold, empty)
    print(f"{task.instance_id:<40} {gold.status:<19} {empty.status:<19} {checked.remark}", flush=True)
    return checked
