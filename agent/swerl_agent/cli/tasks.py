"""`swerl tasks`: bring tasks in, look at them, and prove that they grade."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import task_check, task_import
from .task_options import TASKS, add_task_options, chosen_tasks


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`import`, `export`, `list`, `images` and `check`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    task_import.add_parsers(verbs)
    listing = verbs.add_parser("list", help="show the tasks of a set")
    listing.add_argument("path", type=Path, nargs="+", help=TASKS)
    add_task_options(listing)
    listing.set_defaults(run=list_tasks)
    images = verbs.add_parser("images", help="print the images of a set, one a line, as a SweImageSet reads them")
    images.add_argument("path", type=Path, nargs="+", help=TASKS)
    add_task_options(images)
    images.set_defaults(run=list_images)
    task_check.add_parser(verbs)


async def list_tasks(options: argparse.Namespace) -> int:
    """Print id, tests and image of every task."""
    for task in chosen_tasks(options, *options.path):
        ground_truth = task.ground_truth
        counts = f"{len(ground_truth.fail_to_pass)}+{len(ground_truth.pass_to_pass)}"
        print(f"{task.instance_id:<40} {counts:>9}  {task.image}")
    return 0


async def list_images(options: argparse.Namespace) -> int:
    """Print every image once, sorted."""
    print(*sorted({task.image for task in chosen_tasks(options, *options.path)}), sep="\n")
    return 0
