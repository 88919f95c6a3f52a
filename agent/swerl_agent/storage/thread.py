"""Work on the disk beside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_disk(write: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What `write` returns or raises, in a thread; a cancellation that comes meanwhile is raised once it has ended."""
    writing = asyncio.create_task(asyncio.to_thread(write, *given, **named))
    cancelled = False
    while not writing.done():
        try:
            await asyncio.wait([writing])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and not writing.cancelled():
        raise asyncio.CancelledError from writing.exception()
    return writing.result()
