"""Reading task sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from swerl_api import RegistryRewrite

from .images import rewrite
from .jsonl import read_jsonl
from .repository import read_repository
from .selection import select
from .task import Task, TaskError

Format = Literal["swebench-task-repo", "jsonl"]


def load_tasks(
    path: Path,
    format: Format,
    *,
    slice: str | None = None,
    filter: str | None = None,
    split: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    registry_rewrite: Iterable[RegistryRewrite] = (),
) -> list[Task]:
    """The chosen tasks at `path` with their images rewritten (see `select` for the choice).

    `split` keeps the tasks that name this split. Raises TaskError for unreadable or malformed tasks, repeated ids, and
    an empty choice.
    """
    tasks = read_repository(path) if format == "swebench-task-repo" else read_jsonl(path)
    repeated = [name for name, count in Counter(task.instance_id for task in tasks).items() if count > 1]
    if repeated:
        raise TaskError(f"{path}: instance_id given more than once: {', '.join(sorted(repeated))}")
    if split:
        tasks = [task for task in tasks if task.split == split]
    rules = list(registry_rewrite)
    chosen = select(tasks, slice=slice, filter=filter, shuffle=shuffle, seed=seed)
    return [replace(task, image=rewrite(task.image, rules)) for task in chosen]
