"""The rate of requests to one host."""

from __future__ import annotations

import asyncio
import time
from collections import deque


class RateLimiter:
    """At most `limit` requests in any `period` seconds (0: any number), and none before `pause` ends."""

    def __init__(self, limit: int, period: float = 60.0) -> None:
        self._requests: deque[float] = deque(maxlen=limit or None)
        self._limit, self._period = limit, period
        self._closed_until = 0.0

    async def acquire(self) -> None:
        """Wait until one more request may be sent, and count it."""
        wait = self._opens() - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
            await self.acquire()  # others may have been first, or a pause begun
        elif self._limit:
            self._requests.append(time.monotonic())

    def pause(self, seconds: float) -> None:
        """No request for `seconds` from now."""
        self._closed_until = max(self._closed_until, time.monotonic() + seconds)

    def _opens(self) -> float:
        full = self._limit and len(self._requests) == self._limit
        return max(self._closed_until, self._requests[0] + self._period if full else 0.0)
