"""When sandboxes that have served are removed.

Guarantees: what is put off begins as soon as no episode acts, or the next removal finds others waiting for room; a
removal that has begun ends, whatever becomes of whoever asked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from swerl_api import ChurnWhile

Removal = Callable[[], Coroutine[Any, Any, None]]


class Removals:
    """Removals at once, or while no episode acts."""

    def __init__(self, churn_while: ChurnWhile, waiting: Callable[[], int]) -> None:
        """`waiting`: sandboxes that are not ready yet, to which those that are removed may make room."""
        self._always = churn_while == "always"
        self._waiting = waiting
        self._acting = 0
        self._put_off: list[Removal] = []
        self._begun: set[asyncio.Task[None]] = set()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """For the time that an episode acts."""
        self._acting += 1
        try:
            yield
        finally:
            self._acting -= 1

    async def remove(self, removal: Removal) -> None:
        """Returns when it is done, or put off; what may be removed now, is."""
        if self._always:
            await asyncio.shield(self.begin(removal()))
            return
        self._put_off.append(removal)
        if not self._acting or self._waiting():
            put_off, self._put_off = self._put_off, []
            for one in put_off:
                self.begin(one())

    def begin(self, removal: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """In the background, whatever is acting."""
        task = asyncio.create_task(removal)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    async def close(self) -> None:
        """Wait for what has begun; what was put off is nobody's any more."""
        self._put_off.clear()
        await asyncio.gather(*self._begun, return_exceptions=True)
