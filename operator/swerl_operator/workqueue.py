"""A de-duplicating work queue for level-triggered reconciliation.

Guarantees: one worker at a time handles a key; a key added meanwhile is handled once more afterwards; a failed key is
retried with growing delays; an immediate add replaces a delay; flows (for example one per job) are served in turn, so a
thousand keys of one flow delay another flow by at most one key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

from swerl_kube import Unavailable, pause_after
from swerl_kube.logs import log_ids

from .metrics import Metrics

Key = TypeVar("Key", bound=Hashable)
ObjectKey = tuple[str, str]  # namespace, name
logger = logging.getLogger(__name__)

MAX_CONCURRENT_CALLS = 16  # requests in flight when one decision makes many
MAX_DOUBLINGS = 16  # far beyond the longest delay; keeps the power small


async def gather_bounded(calls: Iterable[Awaitable[None]], limit: int = MAX_CONCURRENT_CALLS) -> None:
    """Await all, at most `limit` at a time; raises the first error."""
    slots = asyncio.Semaphore(limit)

    async def limited(call: Awaitable[None]) -> None:
        async with slots:
            await call

    await asyncio.gather(*(limited(call) for call in calls))


def _names(key: Hashable) -> dict[str, object]:
    return dict(zip(("namespace", "name"), key, strict=False)) if isinstance(key, tuple) else {"name": key}


class FairQueue(Generic[Key]):
    """Keys that are ready: first in, first out within a flow, one flow after the other; no key is queued twice."""

    def __init__(self) -> None:
        self._flows: OrderedDict[Hashable, deque[Key]] = OrderedDict()
        self._waiting: dict[Key, float] = {}  # key -> when it was put
        self._nonempty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: Key, flow: Hashable) -> None:
        """Add to the end of a flow."""
        if key not in self._waiting:
            self._waiting[key] = time.monotonic()
            self._flows.setdefault(flow, deque()).append(key)
            self._nonempty.set()

    async def get(self) -> tuple[Key, float]:
        """The first key of the next flow, and the seconds that it waited."""
        while not self._flows:
            self._nonempty.clear()
            await self._nonempty.wait()
        flow, keys = self._flows.popitem(last=False)
        key = keys.popleft()
        if keys:
            self._flows[flow] = keys
        return key, time.monotonic() - self._waiting.pop(key)


class WorkQueue(Generic[Key]):
    """Keys of one `kind`, each passed to `reconcile`, which returns seconds until the next time or None for never.

    `flow` gives the flow of a key; by default all keys share one. `retry_seconds`: first and longest delay of a retry.
    """

    def __init__(
        self,
        kind: str,
        reconcile: Callable[[Key], Awaitable[float | None]],
        metrics: Metrics,
        *,
        workers: int = 4,
        retry_seconds: tuple[float, float] = (0.5, 60.0),
        flow: Callable[[Key], Hashable] | None = None,
    ) -> None:
        self._kind = kind
        self._reconcile = reconcile
        self._metrics = metrics
        self._workers = workers
        self._min_retry, self._max_retry = retry_seconds
        self._flow = flow or (lambda key: None)
        self._ready: FairQueue[Key] = FairQueue()
        self._processing: set[Key] = set()
        self._dirty: set[Key] = set()  # added while working
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Have `key` reconciled as soon as a worker is free."""
        self._cancel_timer(key)
        if key in self._processing:
            self._dirty.add(key)
        else:
            self._ready.put(key, self._flow(key))
            self._metrics.queue_depth.labels(kind=self._kind).set(len(self._ready))

    def add_after(self, key: Key, seconds: float) -> None:
        """Have `key` reconciled in `seconds`, unless something adds it earlier."""
        if seconds <= 0:
            self.add(key)
            return
        due = asyncio.get_running_loop().time() + seconds
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= due:
            return
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_at(due, self.add, key)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self._kind} worker {number}")
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _work(self) -> None:
        while True:
            key, waited = await self._ready.get()
            self._metrics.queue_wait.labels(kind=self._kind).observe(waited)
            self._metrics.queue_depth.labels(kind=self._kind).set(len(self._ready))
            self._processing.add(key)
            with log_ids(kind=self._kind, **_names(key)):
                delay = await self._reconcile_once(key)
            self._processing.discard(key)
            if key in self._dirty:
                self._dirty.discard(key)
                self.add(key)
            elif delay is not None:
                self.add_after(key, delay)

    async def _reconcile_once(self, key: Key) -> float | None:
        started = time.monotonic()
        try:
            delay = await self._reconcile(key)
        except Exception as error:
            self._metrics.reconciles.labels(kind=self._kind, outcome="error").inc()
            return self._retry_delay(key, error)
        finally:
            self._metrics.reconcile_seconds.labels(kind=self._kind).observe(time.monotonic() - started)
        self._failures.pop(key, None)
        self._metrics.reconciles.labels(kind=self._kind, outcome="ok").inc()
        return delay

    def _retry_delay(self, key: Key, error: Exception) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        backoff: float = min(self._min_retry * 2 ** min(failures, MAX_DOUBLINGS), self._max_retry)
        delay = pause_after(error, backoff)
        expected = isinstance(error, Unavailable)
        logger.log(
            logging.WARNING if expected else logging.ERROR,
            "%s %s failed, next retry in %.1f s: %s", self._kind, key, delay, error,
            exc_info=None if expected else error,
        )  # fmt: skip
        return delay

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
