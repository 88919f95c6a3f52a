"""A time limit for one wait after another, moved often and reached seldom.

`asyncio.timeout` sets and cancels a timer for each wait. Here one timer stays, and looks when it rings whether the
limit was moved meanwhile: moving it costs nothing. The timers were a tenth of what a short command costs its client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Limit:
    """For one waiting task at a time; `close` it."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None  # the one that waits
        self._until = 0.0
        self._reached = False

    async def wait(self, awaited: Awaitable[T], until: float) -> T:
        """The result; raises TimeoutError when the loop's clock passed `until` first."""
        task = asyncio.current_task()
        assert task is not None
        self._task, self._until, self._reached = task, until, False
        cancelled_before = task.cancelling()
        if self._timer is None or until < self._timer.when():
            self._set()
        try:
            return await awaited
        except asyncio.CancelledError:
            if self._reached and task.uncancel() <= cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._task = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self.close()
        self._timer = asyncio.get_running_loop().call_at(self._until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._clock() < self._until:
            self._set()
        else:
            self._reached = True
            self._task.cancel()
