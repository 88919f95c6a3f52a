"""Choosing among tasks: filter, shuffle, slice, in this order.

Guarantee: the outcome depends on the tasks' ids and the arguments alone, not on the order in which files were found.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from .task import Task, TaskError

_SLICE = re.compile(r"^(-?\d+)?:(-?\d+)?(?::(-?\d+))?$")


def select(
    tasks: Sequence[Task],
    *,
    slice: str | None = None,
    filter: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
) -> list[Task]:
    """The chosen tasks, sorted by id or shuffled by `seed`.

    `filter` is a regular expression matched at the start of the id; `slice` is a Python slice such as `0:64` or
    `::2`. Raises TaskError when an expression is malformed or nothing is left.
    """
    chosen = sorted(tasks, key=lambda task: task.instance_id)
    if filter:
        try:
            pattern = re.compile(filter)
        except re.error as error:
            raise TaskError(f"filter {filter!r} is not a regular expression: {error}") from error
        chosen = [task for task in chosen if pattern.match(task.instance_id)]
    if shuffle:
        random.Random(seed).shuffle(chosen)
    if slice:
        chosen = chosen[parse_slice(slice)]
    if not chosen:
        raise TaskError(f"no task left of {len(tasks)} after filter {filter!r} and slice {slice!r}")
    return chosen


def parse_slice(text: str) -> slice:
    """Python slice of its source form; raises TaskError for anything else."""
    match = _SLICE.match(text.strip())
    if not match or match[3] == "0":
        raise TaskError(f"slice {text!r} is not of the form start:stop or start:stop:step")
    return slice(*(int(part) if part else None for part in match.groups()))


def shard_slice(index: int, count: int, total: int) -> slice:
    """Slice of shard `index` of `count`; the shards cover `total` items exactly once."""
    return slice(index * total // count, (index + 1) * total // count)
