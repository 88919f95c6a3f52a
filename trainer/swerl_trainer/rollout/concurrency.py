"""How many training groups run at once: fewer while the engines' KV caches are full, more while they have room.

An engine whose cache is full preempts requests and computes their prompts again later. Fewer groups are then faster.

Guarantees: nothing is limited until a cache was full; a reduction counts before the next one is made, so that groups
that still run cost no second reduction; at least one group may run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

FULL = 0.95  # share of a KV cache in use above which one group less runs
ROOM = 0.75  # share below which one group more runs
PERIOD = 5.0  # seconds between two readings


def adapted_limit(limit: int | None, *, usage: float, running: int) -> int | None:
    """The next limit of running groups, None for no limit. `usage`: of the fullest KV cache, 0 to 1."""
    if not running or (limit is not None and running > limit):
        return limit
    if usage > FULL:
        return max(1, running - 1)
    if usage < ROOM and running == limit:
        return limit + 1
    return limit


class AdaptiveConcurrency:
    """Reads the engines' usage and limits the groups of a dispatcher."""

    def __init__(
        self,
        usage: Callable[[], Awaitable[float | None]],
        running: Callable[[], int],
        limit: Callable[[int | None], None],
        *,
        period: float = PERIOD,
    ) -> None:
        """`usage`: of the fullest KV cache, None where no engine answers; `limit`: takes each new limit."""
        self._usage = usage
        self._running = running
        self._limit = limit
        self._period = period
        self._current: int | None = None

    async def watch(self) -> None:
        """Adapt the limit until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            usage = await self._usage()
            if usage is None:
                continue
            adapted = adapted_limit(self._current, usage=usage, running=self._running())
            if adapted != self._current:
                logger.info("KV cache %.0f %% full: at most %s groups run at once", 100 * usage, adapted)
                self._current = adapted
                self._limit(adapted)
