"""Writes repeated while the API server is unavailable: a restart delays them and fails nothing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from .errors import Unavailable
from .retry_after import pause_after

T = TypeVar("T")


@dataclass(frozen=True)
class WriteRetry:
    """How long and how often a write is retried; in seconds."""

    window: float = 60.0
    first_pause: float = 0.25  # before the first retry; doubled each time
    longest_pause: float = 4.0


WRITE_RETRY = WriteRetry()


async def retry_write(write: Callable[[], Awaitable[T]], retry: WriteRetry = WRITE_RETRY) -> T:
    """The result of `write`, retried while the server is unreachable, fails or throttles.

    A lost answer hides whether the server acted, so `write` must expect its own earlier effect (a Conflict).
    """
    deadline, pause = time.monotonic() + retry.window, retry.first_pause
    while True:
        try:
            return await write()
        except Unavailable as error:
            wait = pause_after(error, pause * random.uniform(0.5, 1.0))
            if time.monotonic() + wait > deadline:
                raise
        await asyncio.sleep(wait)
        pause = min(2 * pause, retry.longest_pause)
