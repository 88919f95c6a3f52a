"""The order of training tasks.

Guarantees: the task at a position is a pure function of position, seed and number of tasks. A run that continues from a
stored position therefore sees the same order as an uninterrupted run. Within an epoch each task comes once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class TaskOrder:
    """The endless sequence of tasks `0 .. count-1`, epoch after epoch."""

    count: int
    shuffle: bool
    seed: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("no training tasks: check tasks.source, tasks.filter and tasks.slice")

    def task(self, position: int) -> int:
        """Task at `position` (from 0)."""
        return _epoch(self.count, self.shuffle, self.seed, position // self.count)[position % self.count]

    def epoch(self, position: int) -> int:
        """Epoch (from 0) that `position` lies in."""
        return position // self.count


@lru_cache(maxsize=4)
def _epoch(count: int, shuffle: bool, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(count))
    if shuffle:
        random.Random(f"{seed}/{epoch}").shuffle(order)
    return tuple(order)
