"""A de-duplicating work queue for level-triggered reconciliation.

Guarantees: a key is worked on by one worker at a time; adding it while it is being worked on makes it run once more
afterwards; a failed key comes back with growing delay; a delayed key is brought forward by an immediate add; lanes
(one for each job, say) are served in turn, so that a thousand keys of one delay no other by more than a turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

from .errors import Unavailable, pause_after
from .metrics import Metrics

Key = TypeVar("Key", bound=Hashable)
logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 60.0
AT_ONCE = 16  # requests under way where one decision makes many
MOST_DOUBLINGS = 16  # far beyond LAST_RETRY_SECONDS; keeps the power a small number


async def bounded(calls: Iterable[Awaitable[None]], limit: int = AT_ONCE) -> None:
    """Await all, at most `limit` at a time; raises the first error."""
    places = asyncio.Semaphore(limit)

    async def one(call: Awaitable[None]) -> None:
        async with places:
            await call

    await asyncio.gather(*(one(call) for call in calls))


class Lanes(Generic[Key]):
    """Keys that are ready, first in first out within a lane, lane after lane; a key that waits is not added again."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[Hashable, deque[Key]] = OrderedDict()
        self._waiting: set[Key] = set()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: Key, lane: Hashable) -> None:
        """Add to the end of a lane."""
        if key not in self._waiting:
            self._waiting.add(key)
            self._lanes.setdefault(lane, deque()).append(key)
            self._some.set()

    async def get(self) -> Key:
        """The next key of the lane whose turn it is."""
        while not self._lanes:
            self._some.clear()
            await self._some.wait()
        lane, keys = self._lanes.popitem(last=False)
        key = keys.popleft()
        if keys:
            self._lanes[lane] = keys
        self._waiting.discard(key)
        return key


class WorkQueue(Generic[Key]):
    """Keys of one `kind`, each handed to `reconcile`, which returns seconds until the next look or None for never.

    `lane` names the lane of a key; without it all share one.
    """

    def __init__(
        self,
        kind: str,
        reconcile: Callable[[Key], Awaitable[float | None]],
        metrics: Metrics,
        *,
        workers: int = 4,
        lane: Callable[[Key], Hashable] | None = None,
    ) -> None:
        self._kind = kind
        self._reconcile = reconcile
        self._metrics = metrics
        self._workers = workers
        self._lane = lane or (lambda key: None)
        self._ready: Lanes[Key] = Lanes()
        self._working: set[Key] = set()
        self._dirty: set[Key] = set()  # added while working
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Have `key` reconciled as soon as a worker is free."""
        self._cancel_timer(key)
        if key in self._working:
            self._dirty.add(key)
        else:
            self._ready.put(key, self._lane(key))
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
            key = await self._ready.get()
            self._metrics.queue_depth.labels(kind=self._kind).set(len(self._ready))
            self._working.add(key)
            delay = await self._attempt(key)
            self._working.discard(key)
            if key in self._dirty:
                self._dirty.discard(key)
                self.add(key)
            elif delay is not None:
                self.add_after(key, delay)

    async def _attempt(self, key: Key) -> float | None:
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
        usual: float = min(FIRST_RETRY_SECONDS * 2 ** min(failures, MOST_DOUBLINGS), LAST_RETRY_SECONDS)
        delay = pause_after(error, usual)
        expected = isinstance(error, Unavailable)
        logger.log(
            logging.WARNING if expected else logging.ERROR,
            "%s %s failed, next try in %.1f s: %s", self._kind, key, delay, error,
            exc_info=None if expected else error,
        )  # fmt: skip
        return delay

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
