"""Blocking disk work next to an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def finish_in_thread(write: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """The result of `write`, called in a thread. A cancellation is raised only after `write` has returned."""
    writing = asyncio.create_task(asyncio.to_thread(write, *arguments, **options))
    cancelled = False
    while not writing.done():
        try:
            await asyncio.wait([writing])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and not writing.cancelled():
        raise asyncio.CancelledError from writing.exception()
    return writing.result()
