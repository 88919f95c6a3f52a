"""Options that choose tasks, and the tasks that they choose."""

from __future__ import annotations

import argparse
from pathlib import Path

from swerl_agent.tasks import Format, Task, load_tasks
from swerl_agent.tasks.eval_scripts import scripts_of
from swerl_agent.tasks.quarantine import read_quarantine
from swerl_agent.tasks.repository import TASKS_FOLDER
from swerl_agent.tasks.row_files import SUFFIXES
from swerl_agent.tasks.sources import RowSource

from .values import registry_rewrite


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """Which tasks."""
    parser.add_argument("--format", choices=["swebench-task-repo", "jsonl"], help="default: jsonl for files")
    parser.add_argument("--filter", metavar="REGEX", help="only ids that begin with a match")
    parser.add_argument("--slice", metavar="A:B", help="python slice of the sorted ids, after the filter")
    parser.add_argument("--split", help="only tasks of this split")
    parser.add_argument("--quarantine", type=Path, metavar="FILE", help="leave out the tasks that `check` wrote here")
    add_rewrite_option(parser)


def add_rewrite_option(parser: argparse.ArgumentParser) -> None:
    """Where images come from instead."""
    parser.add_argument(
        "--registry-rewrite",
        metavar="PREFIX=REPLACEMENT",
        type=registry_rewrite,
        action="append",
        default=[],
        help="rewrite image references; an empty PREFIX matches all; repeatable, the first match counts",
    )


def add_script_options(parser: argparse.ArgumentParser) -> None:
    """Where rows without an eval script have theirs from."""
    parser.add_argument("--eval-scripts", metavar="SOURCE", help="where rows without eval_script find theirs, by id")


def eval_scripts(options: argparse.Namespace) -> dict[str, str]:
    """Those of --eval-scripts, by id; raises TaskError."""
    return scripts_of(RowSource(options.eval_scripts)) if options.eval_scripts else {}


def chosen_tasks(options: argparse.Namespace, path: Path, *, shuffle: bool = False, seed: int = 0) -> list[Task]:
    """The tasks at `path` that the options choose; raises TaskError."""
    rows = not (path / TASKS_FOLDER).is_dir() if path.is_dir() else path.suffix in SUFFIXES
    guessed: Format = "jsonl" if rows else "swebench-task-repo"
    return load_tasks(
        path,
        options.format or guessed,
        filter=options.filter,
        slice=options.slice,
        split=options.split,
        shuffle=shuffle,
        seed=seed,
        exclude=read_quarantine(options.quarantine) if options.quarantine else (),
        registry_rewrite=options.registry_rewrite,
    )
