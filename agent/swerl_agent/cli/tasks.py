"""`swerl tasks`: bring tasks in, look at them, and prove that they grade."""

from __future__ import annotations

from typing import Any

from swerl_agent.tasks import Task

from .command import Group, Options, runs
from .output import output_option, print_result
from .task_options import chosen_tasks, paths_argument, task_options

command = Group(
    "tasks",
    help="List, import and check task sets.",
    members={
        "import": (".task_import:import_tasks", "write tasks of any source as .jsonl for training or evaluation"),
        "export": (".task_import:export_tasks", "write an evaluation set's ids, images and tasks into a folder"),
        "check": (".task_check:check_tasks", "check that each reference fix passes and that the empty patch fails"),
    },
)


@command.command("list", help="show the tasks of a set")
@paths_argument
@task_options
@output_option
@runs
async def list_tasks(options: Options) -> int:
    """Print id, tests and image of every task."""
    tasks = chosen_tasks(options, *options.path)
    print_result(options, [_document(task) for task in tasks], map(_line, tasks))
    return 0


def _document(task: Task) -> dict[str, Any]:
    truth = task.ground_truth
    counts = {"fail_to_pass": len(truth.fail_to_pass), "pass_to_pass": len(truth.pass_to_pass)}
    return {"instance_id": task.instance_id, **counts, "image": task.image}


def _line(task: Task) -> str:
    counts = f"{len(task.ground_truth.fail_to_pass)}+{len(task.ground_truth.pass_to_pass)}"
    return f"{task.instance_id:<40} {counts:>9}  {task.image}"


@command.command("images", help="print the images of a set, one a line, as a SweImageSet reads them")
@paths_argument
@task_options
@output_option
@runs
async def list_images(options: Options) -> int:
    """Print every image once, sorted."""
    images = sorted({task.image for task in chosen_tasks(options, *options.path)})
    print_result(options, images, images)
    return 0
