"""A de-duplicating work queue for level-triggered reconciliation.

Guarantees: a key is worked on by one worker at a time; adding it while it is being worked on makes it run once more
afterwards; a failed key comes back with growing delay; a delayed key is brought forward by an immediate add.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from .errors import Unavailable
from .metrics import Metrics

Key = TypeVar("Key", bound=Hashable)
logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 60.0
MOST_DOUBLINGS = 16  # far beyond LAST_RETRY_SECONDS; keeps the power a small number


class WorkQueue(Generic[Key]):
    """Keys of one `kind`, each handed to `reconcile`, which returns seconds until the next look or None for never."""

    def __init__(
        self, kind: str, reconcile: Callable[[Key], Awaitable[float | None]], metrics: Metrics, *, workers: int = 4
    ) -> None:
        self._kind = kind
        self._reconcile = reconcile
        self._metrics = metrics
        self._workers = workers
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()  # in _ready
        self._working: set[Key] = set()
        self._dirty: set[Key] = set()  # added while working
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Have `key` reconciled as soon as a worker is free."""
        self._cancel_timer(key)
        if key in self._working:
            self._dirty.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)
            self._metrics.queue_depth.labels(kind=self._kind).set(len(self._waiting))

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
            self._waiting.discard(key)
            self._metrics.queue_depth.labels(kind=self._kind).set(len(self._waiting))
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
        delay: float = min(FIRST_RETRY_SECONDS * 2 ** min(failures, MOST_DOUBLINGS), LAST_RETRY_SECONDS)
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
