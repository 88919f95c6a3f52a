"""Reading task sets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from swerl_api import RegistryRewrite
from swerl_api.images import rewrite

from .benchmark_refusal import benchmark_refusal
from .benchmarks import Purpose
from .importing import ImportRequest, import_one
from .quarantine import quarantined_beside
from .repository import TASKS_FOLDER, read_repository
from .row_files import SUFFIXES, row_files, unread_rows
from .selection import select
from .task import Task, TaskError

logger = logging.getLogger(__name__)

Format = Literal["swebench-task-repo", "jsonl"]


def format_of(path: Path) -> Format:
    """The format of the tasks at `path`: a repository has a folder of tasks, anything else is files of rows."""
    rows = not (path / TASKS_FOLDER).is_dir() if path.is_dir() else path.suffix in SUFFIXES
    return "jsonl" if rows else "swebench-task-repo"


def load_tasks(
    path: Path,
    format: Format,
    *,
    slice: str | None = None,
    filter: str | None = None,
    split: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    exclude: Collection[str] = (),
    purpose: Purpose = "evaluation",
    registry_rewrite: Iterable[RegistryRewrite] = (),
    data_source: str = "",
    scripts: Mapping[str, str] | None = None,
) -> list[Task]:
    """The chosen tasks at `path` with their images rewritten (see `select` for the choice).

    Rows may be as their data set has them: `data_source` is the set of those that name none, `scripts` has eval scripts
    by lower-cased id for those without one.
    `split` keeps the tasks that name this split, `exclude` leaves out ids, as does a quarantine file beside the tasks.
    Raises TaskError for unreadable or malformed tasks, repeated ids, an empty choice, and, for training, tasks of a
    benchmark.
    """
    if format == "swebench-task-repo":
        tasks = read_repository(path)
    else:
        request = ImportRequest(purpose="evaluation", scripts=scripts or {})
        rows = (unread for file in row_files(path) for unread in unread_rows(file))
        tasks = [import_one(unread, request, data_source=data_source) for unread in rows]
    refuse_repeated(tasks, where=str(path))
    if split:
        tasks = [task for task in tasks if task.split == split]
    rules = list(registry_rewrite)
    unfit = sorted(quarantined_beside(path) & {task.instance_id for task in tasks})
    if unfit:
        logger.warning("%d of %d tasks at %s are in quarantine: %s", len(unfit), len(tasks), path, ", ".join(unfit))
    left_out = {*exclude, *unfit}
    kept = [task for task in tasks if task.instance_id not in left_out]
    chosen = select(kept, slice=slice, filter=filter, shuffle=shuffle, seed=seed)
    refusal = benchmark_refusal(chosen) if purpose == "train" else None
    if refusal:
        raise TaskError(f"{path}: {refusal}")
    return [replace(task, image=rewrite(task.image, rules)) for task in chosen]


def refuse_repeated(tasks: Iterable[Task], *, where: str) -> None:
    """Raise TaskError when an id is given more than once."""
    repeated = [name for name, count in Counter(task.instance_id for task in tasks).items() if count > 1]
    if repeated:
        raise TaskError(f"instance_id given more than once: {', '.join(sorted(repeated))}", where)
