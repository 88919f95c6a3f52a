"""Admission of whole groups: in order within each job's limit, fair between jobs within one limit for all.

Guarantees:

* The Pods of a job's admitted groups never exceed the limit in the spec of the group admitted last. The Pods of all
  jobs never exceed the limit for all.
* A group is admitted whole or not at all; no younger group overtakes an older one of its job.
* The job with the fewest Pods goes first, and no job overtakes it while it waits for room.
* A group larger than a limit waits until it is alone.

Pure: no clock, no I/O.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..workqueue import ObjectKey

Order = tuple[float, int]  # creation time, arrival


@dataclass
class _JobAdmission:
    outstanding: dict[str, int] = field(default_factory=dict)  # admitted group -> Pods it still needs or has
    total: int = 0
    waiting: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # group -> size, limit
    queue: list[tuple[Order, str]] = field(default_factory=list)

    def head(self) -> tuple[Order, str] | None:
        """The oldest waiting group."""
        while self.queue and self.queue[0][1] not in self.waiting:
            heapq.heappop(self.queue)
        return self.queue[0] if self.queue else None

    def fits(self, uid: str) -> bool:
        """Whether the waiting group stays within its job's limit."""
        size, limit = self.waiting[uid]
        return _fits(self.total, size, limit)


class FairAdmission:
    """Which groups may create Pods. A UID identifies a group, (namespace, name) a job; `limit` is for all jobs."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._total = 0
        self._jobs: dict[ObjectKey, _JobAdmission] = defaultdict(_JobAdmission)

    def admitted(self, job_key: ObjectKey, uid: str) -> bool:
        """Whether the group was admitted."""
        return job_key in self._jobs and uid in self._jobs[job_key].outstanding

    def known(self, job_key: ObjectKey) -> bool:
        """Whether any group of the job waits or was admitted."""
        return job_key in self._jobs

    def total(self, job_key: ObjectKey) -> int:
        """Pods that the admitted groups of the job still have or will create."""
        return self._jobs[job_key].total if job_key in self._jobs else 0

    def enqueue(self, job_key: ObjectKey, uid: str, order: Order, size: int, limit: int | None) -> None:
        """Queue a group; a second call changes nothing."""
        state = self._jobs[job_key]
        if uid in state.outstanding or uid in state.waiting:
            return
        state.waiting[uid] = (size, limit)
        heapq.heappush(state.queue, (order, uid))

    def set_outstanding(self, job_key: ObjectKey, uid: str, outstanding: int) -> None:
        """Set how many Pods an admitted group (also one of an earlier process) still has or will create."""
        state = self._jobs[job_key]
        state.waiting.pop(uid, None)
        more = outstanding - state.outstanding.get(uid, 0)
        state.total += more
        self._total += more
        state.outstanding[uid] = outstanding

    def remove(self, job_key: ObjectKey, uid: str) -> None:
        """Remove a group that is finished or gone."""
        state = self._jobs.get(job_key)
        if state is None:
            return
        state.waiting.pop(uid, None)
        fewer = state.outstanding.pop(uid, 0)
        state.total -= fewer
        self._total -= fewer
        if not state.outstanding and not state.waiting:
            del self._jobs[job_key]

    def waits_for_other_jobs(self, job_key: ObjectKey, uid: str) -> bool:
        """Whether the group waits only for the limit of all jobs, not for its own job's."""
        state = self._jobs.get(job_key)
        head = state.head() if state is not None else None
        return head is not None and head[1] == uid and state is not None and state.fits(uid)

    def admit(self, job_key: ObjectKey) -> list[tuple[ObjectKey, str]]:
        """Admit what fits now: job and UID of the groups admitted by this call.

        Without a limit for all, only the job `job_key` can have changed.
        """
        admitted: list[tuple[ObjectKey, str]] = []
        while (admission := self._next([job_key] if self._limit is None else self._jobs)) is not None:
            admitted_key, uid = admission
            self.set_outstanding(admitted_key, uid, self._jobs[admitted_key].waiting[uid][0])
            admitted.append(admission)
        return admitted

    def _next(self, job_keys: Iterable[ObjectKey]) -> tuple[ObjectKey, str] | None:
        """The next group of the jobs `job_keys`, if there is room for it."""
        candidates: list[tuple[int, Order, ObjectKey, str]] = []
        for key in job_keys:
            state = self._jobs.get(key)
            head = state.head() if state is not None else None
            if state is not None and head is not None and state.fits(head[1]):
                candidates.append((state.total, head[0], key, head[1]))
        if not candidates:
            return None
        _, _, job_key, uid = min(candidates)
        size = self._jobs[job_key].waiting[uid][0]
        return (job_key, uid) if _fits(self._total, size, self._limit) else None


def _fits(total: int, size: int, limit: int | None) -> bool:
    return limit is None or total == 0 or total + size <= limit
