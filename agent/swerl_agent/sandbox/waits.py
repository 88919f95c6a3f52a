"""Causes of long waits, as debug messages of a logger.

The CLI shows them. A trainer, which has many groups, does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

logger = logging.getLogger(__name__)

FIRST_REPORT = 10.0  # seconds of a wait
NEXT_LOOK = 2.0  # seconds until a changed cause is reported


@asynccontextmanager
async def reported(
    cause: Callable[[], str], *, after: float = FIRST_REPORT, interval: float = NEXT_LOOK
) -> AsyncIterator[None]:
    """Report `cause()` when the body takes longer than `after` seconds, and again, by `interval`, when it changes."""
    if not logger.isEnabledFor(logging.DEBUG):
        yield
        return
    reports = asyncio.create_task(_report(cause, after, interval))
    try:
        yield
    finally:
        reports.cancel()


async def _report(cause: Callable[[], str], after: float, interval: float) -> None:
    await asyncio.sleep(after)
    last = ""
    while True:
        if (text := cause()) != last:
            logger.debug("%s", text)
            last = text
        await asyncio.sleep(interval)
