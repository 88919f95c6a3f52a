"""A reusable timeout for consecutive waits: its deadline moves often and rarely expires.

`asyncio.timeout` creates and cancels one timer per wait. This class keeps one timer. When the timer fires, it checks
whether the deadline has moved. The timers were a tenth of the client's cost of a short command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class ReusableTimeout:
    """For one waiting task at a time; call `close` at the end."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Task[object] | None = None
        self._deadline = 0.0
        self._expired = False

    async def wait(self, awaited: Awaitable[T], deadline: float) -> T:
        """The result of `awaited`; raises TimeoutError once the event loop's clock has passed `deadline`."""
        task = asyncio.current_task()
        assert task is not None
        self._waiter, self._deadline, self._expired = task, deadline, False
        cancelled_before = task.cancelling()
        if self._timer is None or deadline < self._timer.when():
            self._arm()
        try:
            return await awaited
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._waiter = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self.close()
        self._timer = asyncio.get_running_loop().call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._clock() < self._deadline:
            self._arm()
        else:
            self._expired = True
            self._waiter.cancel()
