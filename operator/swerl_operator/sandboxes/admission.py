"""Admission of whole groups, first come first served, within a job's limit and, fair between jobs, within one for all.

Guarantees: the Pods of admitted groups of one scope never exceed the limit that the last admitted group named, nor
those of all scopes the limit for all; a group is admitted whole or not at all; no younger group passes an older one of
its scope; among scopes the one with the fewest Pods goes first, and nobody passes it while it waits for room; a group
larger than a limit waits until it is alone. Pure: no clock, no I/O.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from .parsed import Key

Order = tuple[float, int]  # creation time, arrival


@dataclass
class _Scope:
    outstanding: dict[str, int] = field(default_factory=dict)  # admitted group -> Pods it still needs or has
    total: int = 0
    waiting: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # group -> size, limit
    queue: list[tuple[Order, str]] = field(default_factory=list)

    def head(self) -> tuple[Order, str] | None:
        """The oldest group that waits."""
        while self.queue and self.queue[0][1] not in self.waiting:
            heapq.heappop(self.queue)
        return self.queue[0] if self.queue else None

    def fits(self, uid: str) -> bool:
        """Whether the waiting group stays within its job's limit."""
        size, limit = self.waiting[uid]
        return _fits(self.total, size, limit)


class Admissions:
    """Who may create Pods. Groups are named by UID, scopes by (namespace, job); `limit` is that of all scopes."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._total = 0
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
        more = outstanding - state.outstanding.get(uid, 0)
        state.total += more
        self._total += more
        state.outstanding[uid] = outstanding

    def leave(self, scope: Key, uid: str) -> None:
        """Forget a group that is finished or gone."""
        state = self._scopes.get(scope)
        if state is None:
            return
        state.waiting.pop(uid, None)
        fewer = state.outstanding.pop(uid, 0)
        state.total -= fewer
        self._total -= fewer
        if not state.outstanding and not state.waiting:
            del self._scopes[scope]

    def others_first(self, scope: Key, uid: str) -> bool:
        """Whether the group waits for room among all jobs only, not within its own job's limit."""
        state = self._scopes.get(scope)
        head = state.head() if state is not None else None
        return head is not None and head[1] == uid and state is not None and state.fits(uid)

    def admit(self, scope: Key) -> list[tuple[Key, str]]:
        """Admit what fits now: scope and UID of the groups admitted by this call.

        Without a limit for all, only `scope` can have changed.
        """
        admitted: list[tuple[Key, str]] = []
        while (chosen := self._next([scope] if self._limit is None else self._scopes)) is not None:
            where, uid = chosen
            self.hold(where, uid, self._scopes[where].waiting[uid][0])
            admitted.append(chosen)
        return admitted

    def _next(self, scopes: Iterable[Key]) -> tuple[Key, str] | None:
        """The group whose turn it is among `scopes`, if there is room for it."""
        turns: list[tuple[int, Order, Key, str]] = []
        for key in scopes:
            state = self._scopes.get(key)
            head = state.head() if state is not None else None
            if state is not None and head is not None and state.fits(head[1]):
                turns.append((state.total, head[0], key, head[1]))
        if not turns:
            return None
        _, _, scope, uid = min(turns)
        size = self._scopes[scope].waiting[uid][0]
        return (scope, uid) if _fits(self._total, size, self._limit) else None


def _fits(total: int, size: int, limit: int | None) -> bool:
    return limit is None or total == 0 or total + size <= limit
