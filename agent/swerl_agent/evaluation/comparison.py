"""Two runs compared task by task.

Guarantees: pure; only tasks with valid samples in both count, each once, however many samples it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from .summary import Z

Solved = tuple[int, int]  # resolved and valid samples of a task


@dataclass(frozen=True)
class TaskChange:
    """One task in both runs; None: a run has no valid sample of it."""

    task: str
    one: Solved | None
    other: Solved | None

    @property
    def change(self) -> float | None:
        """Difference of the resolve rates, -1 to 1."""
        if self.one is None or self.other is None:
            return None
        return self.other[0] / self.other[1] - self.one[0] / self.one[1]


@dataclass(frozen=True)
class Comparison:
    """The tasks, the largest change first, and the mean change over those in both."""

    tasks: Sequence[TaskChange]
    shared: int
    mean: float
    low: float  # of the 95 % interval of the mean
    high: float
    better: int
    worse: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval leaves 0 out."""
        return not self.low <= 0 <= self.high


def compare(one: Mapping[str, Solved], other: Mapping[str, Solved]) -> Comparison:
    """Compare run `other` with run `one`: a positive mean says that `other` solves more.

    The interval is the adjusted Wald interval of paired differences (Bonett and Price 2012): one task more in each
    direction, so that a few equal differences prove nothing.
    """
    names = sorted({*one, *other})
    tasks = [TaskChange(name, _valid(one.get(name)), _valid(other.get(name))) for name in names]
    changes = [task.change for task in tasks if task.change is not None]
    adjusted = [*changes, 1.0, -1.0]
    centre, spread = fmean(adjusted), Z * stdev(adjusted) / math.sqrt(len(adjusted))
    return Comparison(
        tasks=sorted(tasks, key=lambda task: (task.change is None, -abs(task.change or 0.0), task.task)),
        shared=len(changes),
        mean=fmean(changes) if changes else 0.0,
        low=max(-1.0, centre - spread),
        high=min(1.0, centre + spread),
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
    )


def _valid(solved: Solved | None) -> Solved | None:
    return solved if solved is not None and solved[1] else None
