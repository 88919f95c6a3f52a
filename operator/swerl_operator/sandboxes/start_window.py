"""The start window: how many Pods of one job may be starting at once.

Two cores start three or four Pods a second, and the Pods of a batch created at once become ready together at its end; a
small fixed number would slow down a hundred nodes. So the window adapts to the nodes, as the congestion window of TCP
Vegas does: the reference is the fastest start observed, at least FAST_START seconds; a start of at most twice the
reference grows the window by one, a start of more than four times shrinks it by one.

Guarantees: the groups of a job get slots in the order of their admission. Pods that wait for a node, fail to pull, or
are slower than `slot_timeout` occupy no slot, so no Pod blocks the others. A group whose Pods are refused is deferred
between two retries. Pure: time is an argument.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

GROW_BELOW = 2.0  # times the reference
SHRINK_ABOVE = 4.0
FAST_START = 0.75  # seconds; faster starts make no difference to users
MAX_DEFERRED = 16  # groups deferred at once: each of them retries


@dataclass
class StartWindow:
    """The start window of one job. Times are seconds of any monotonic clock."""

    minimum: int
    maximum: int
    slot_timeout: float
    window: int = 0
    fastest: float | None = None
    starting: dict[str, float] = field(default_factory=dict)  # Pod name -> created at
    creating_groups: dict[str, None] = field(default_factory=dict)  # groups with Pods to create, in order of admission
    deferred: dict[str, float] = field(default_factory=dict)  # group -> until when the others go first

    def __post_init__(self) -> None:
        self.window = self.window or self.minimum

    def add(self, group: str) -> None:
        """A group has Pods to create; a second call changes nothing."""
        self.creating_groups.setdefault(group)

    def remove(self, group: str, now: float) -> str | None:
        """A group has no more Pods to create. The next group, if that changed."""
        head = self.head(now)
        self.creating_groups.pop(group, None)
        self.deferred.pop(group, None)
        return self.head(now) if head == group else None

    def defer(self, group: str, until: float, now: float) -> str | None:
        """A group's Pod was refused: the others go first, unless too many groups are deferred. The next group."""
        self.deferred = {name: end for name, end in self.deferred.items() if end > now}
        if len(self.deferred) < MAX_DEFERRED:
            self.deferred[group] = until
        return self.head(now)

    def head(self, now: float) -> str | None:
        """The next group to create Pods."""
        return next((group for group in self.creating_groups if self.deferred.get(group, now) <= now), None)

    def slots(self, group: str, now: float) -> int:
        """Pods that `group` may create now."""
        if self.head(now) != group:
            return 0
        return max(0, self.window - self._slots_in_use(now))

    def next_slot(self, group: str, now: float) -> float | None:
        """Seconds until `group`, if it is next or deferred, may create a Pod whatever the others do."""
        if (until := self.deferred.get(group, now)) > now:
            return until - now
        if self.head(now) != group:
            return None
        if self.slots(group, now):
            return 0.0
        recent = [since for since in self.starting.values() if now - since < self.slot_timeout]
        return min(recent) + self.slot_timeout - now if recent else None

    def started(self, pod: str, now: float) -> None:
        """A Pod was created."""
        self.starting[pod] = now

    def ready(self, pod: str, now: float) -> float | None:
        """A Pod became ready; seconds since its creation if it was created here."""
        since = self.starting.pop(pod, None)
        if since is None:
            return None
        start_seconds = max(now - since, 1e-3)
        self.fastest = start_seconds if self.fastest is None else min(self.fastest, start_seconds)
        reference = max(self.fastest, FAST_START)
        if start_seconds <= GROW_BELOW * reference:
            self.window = min(self.window + 1, self.maximum)
        elif start_seconds > SHRINK_ABOVE * reference:
            self.window = max(self.window - 1, self.minimum)
        return start_seconds

    def release(self, pod: str) -> bool:
        """Free the slot of a Pod that waits, failed or is gone. Whether it had one."""
        return self.starting.pop(pod, None) is not None

    def _slots_in_use(self, now: float) -> int:
        recent = itertools.takewhile(lambda since: now - since < self.slot_timeout, reversed(self.starting.values()))
        return sum(1 for _ in recent)  # `starting` is in order of creation
