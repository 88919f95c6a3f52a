"""The pace of requests to one host."""

from __future__ import annotations

import asyncio
import time
from collections import deque

MINUTE = 60.0


class Pace:
    """At most `per_minute` turns in any minute (0: any number), and none before `pause` ends."""

    def __init__(self, per_minute: int) -> None:
        self._turns: deque[float] = deque(maxlen=per_minute or None)
        self._per_minute = per_minute
        self._closed_until = 0.0

    async def turn(self) -> None:
        """Wait for a turn and take it."""
        wait = self._opens() - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
            await self.turn()  # others may have taken it, or a pause begun
        elif self._per_minute:
            self._turns.append(time.monotonic())

    def pause(self, seconds: float) -> None:
        """No turn for `seconds` from now."""
        self._closed_until = max(self._closed_until, time.monotonic() + seconds)

    def _opens(self) -> float:
        full = self._per_minute and len(self._turns) == self._per_minute
        return max(self._closed_until, self._turns[0] + MINUTE if full else 0.0)
