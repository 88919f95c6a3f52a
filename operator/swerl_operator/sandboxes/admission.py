"""Admission of whole groups, first come first served, within a job's limit.

Guarantees: the Pods of admitted groups of one scope never exceed the limit that the last admitted group named; a group
is admitted whole or not at all; no younger group passes an older one of its scope; a group larger than its limit waits
until it is alone. Pure: no clock, no I/O.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field

from .facts import Key

Order = tuple[float, int]  # creation time, arrival


@dataclass
class _Scope:
    outstanding: dict[str, int] = field(default_factory=dict)  # admitted group -> Pods it still needs or has
    total: int = 0
    waiting: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # group -> size, limit
    queue: list[tuple[Order, str]] = field(default_factory=list)


class Admissions:
    """Who may create Pods. Groups are named by UID, scopes by (namespace, job)."""

    def __init__(self) -> None:
        self._scopes: dict[Key, _Scope] = defaultdict(_Scope)

    def admitted(self, scope: Key, uid: str) -> bool:
        """Whether the group was admitted."""
        return scope in self._scopes and uid in self._scopes[scope].outstanding

    def known(self, scope: Key) -> bool:
        """Whether any group of the scope waits or was admitted."""
        return scope in self._scopes

    def total(self, scope: Key) -> int:
        """Pods that the admitted groups of the scope still have or will create."""
        return self._scopes[scope].total if scope in self._scopes else 0

    def wait(self, scope: Key, uid: str, order: Order, size: int, limit: int | None) -> None:
        """Queue a group; a second call changes nothing."""
        state = self._scopes[scope]
        if uid in state.outstanding or uid in state.waiting:
            return
        state.waiting[uid] = (size, limit)
        heapq.heappush(state.queue, (order, uid))

    def hold(self, scope: Key, uid: str, outstanding: int) -> None:
        """Say how many Pods an admitted group (also one admitted by an earlier process) still has or will create."""
        state = self._scopes[scope]
        state.waiting.pop(uid, None)
        state.total += outstanding - state.outstanding.get(uid, 0)
        state.outstanding[uid] = outstanding

    def leave(self, scope: Key, uid: str) -> None:
        """Forget a group that is finished or gone."""
        state = self._scopes.get(scope)
        if state is None:
            return
        state.waiting.pop(uid, None)
        state.total -= state.outstanding.pop(uid, 0)
        if not state.outstanding and not state.waiting:
            del self._scopes[scope]

    def admit(self, scope: Key) -> list[str]:
        """Admit what fits now, oldest first; the UIDs admitted by this call."""
        state = self._scopes.get(scope)
        admitted: list[str] = []
        while state is not None and state.queue:
            _, uid = state.queue[0]
            entry = state.waiting.get(uid)
            if entry is not None and not _fits(state.total, *entry):
                break
            heapq.heappop(state.queue)
            if entry is not None:
                self.hold(scope, uid, entry[0])
                admitted.append(uid)
        return admitted


def _fits(total: int, size: int, limit: int | None) -> bool:
    return limit is None or total == 0 or total + size <= limit
