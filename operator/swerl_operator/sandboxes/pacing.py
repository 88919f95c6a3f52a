"""Waves: how many Pods of one job may be starting at once.

Two cores start three or four Pods a second, and a batch posted at once becomes ready together at its end; a hundred
nodes would be held back by a small fixed number. So the window follows the nodes, as TCP Vegas follows a link: the best
start seen is the undisturbed time; while starts take at most twice as long the window grows by one per ready Pod, and
beyond four times it shrinks by one. Below SWIFT seconds the undisturbed time is of no interest: nobody waits for long.

Guarantees: groups of a scope receive places in the order in which they were admitted; Pods that wait for a node, fail
to pull, or are slower than `slow_start` hold no place, so that no Pod can stop the others for ever, and a group whose
Pods are refused for what they are lets others pass between two tries. Pure: time is an argument.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

GROW_BELOW = 2.0  # times the best start
SHRINK_ABOVE = 4.0
SWIFT = 0.75  # seconds
ASIDE = 16  # groups that step aside at once: each goes on trying


@dataclass
class Wave:
    """The window of one scope. Times are seconds of any steady clock."""

    floor: int
    limit: int
    slow_start: float
    window: int = 0
    best: float | None = None
    starting: dict[str, float] = field(default_factory=dict)  # Pod name -> created at
    creators: dict[str, None] = field(default_factory=dict)  # groups with Pods to create, in order of admission
    aside: dict[str, float] = field(default_factory=dict)  # those that let others pass -> until when

    def __post_init__(self) -> None:
        self.window = self.window or self.floor

    def join(self, group: str) -> None:
        """A group has Pods to create; it keeps its place in the line."""
        self.creators.setdefault(group)

    def leave(self, group: str, now: float) -> str | None:
        """A group has no more Pods to create. The group whose turn it is now, if that changed."""
        head = self.head(now)
        self.creators.pop(group, None)
        self.aside.pop(group, None)
        return self.head(now) if head == group else None

    def step_aside(self, group: str, until: float, now: float) -> str | None:
        """A group's Pod was refused: others may pass, unless too many do that already. The group whose turn it is."""
        self.aside = {name: end for name, end in self.aside.items() if end > now}
        if len(self.aside) < ASIDE:
            self.aside[group] = until
        return self.head(now)

    def head(self, now: float) -> str | None:
        """The group whose turn it is."""
        return next((group for group in self.creators if self.aside.get(group, now) <= now), None)

    def places(self, group: str, now: float) -> int:
        """Pods that `group` may create now."""
        if self.head(now) != group:
            return 0
        return max(0, self.window - self._busy(now))

    def next_place(self, group: str, now: float) -> float | None:
        """Seconds until `group`, if it is its turn or it stepped aside, may create a Pod whatever the others do."""
        if (until := self.aside.get(group, now)) > now:
            return until - now
        if self.head(now) != group:
            return None
        if self.places(group, now):
            return 0.0
        recent = [since for since in self.starting.values() if now - since < self.slow_start]
        return min(recent) + self.slow_start - now if recent else None

    def started(self, pod: str, now: float) -> None:
        """A Pod was created."""
        self.starting[pod] = now

    def ready(self, pod: str, now: float) -> float | None:
        """A Pod became ready; seconds since its creation if it was created here."""
        since = self.starting.pop(pod, None)
        if since is None:
            return None
        took = max(now - since, 1e-3)
        self.best = took if self.best is None else min(self.best, took)
        usual = max(self.best, SWIFT)
        if took <= GROW_BELOW * usual:
            self.window = min(self.window + 1, self.limit)
        elif took > SHRINK_ABOVE * usual:
            self.window = max(self.window - 1, self.floor)
        return took

    def release(self, pod: str) -> bool:
        """A Pod no longer burdens its node's start-up (it waits, failed or is gone). Whether it did until now."""
        return self.starting.pop(pod, None) is not None

    def _busy(self, now: float) -> int:
        recent = itertools.takewhile(lambda since: now - since < self.slow_start, reversed(self.starting.values()))
        return sum(1 for _ in recent)  # `starting` is in the order of creation
