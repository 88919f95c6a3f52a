"""The event loop of our own programs: uvloop's where it is installed, asyncio's where not.

A client with a session spends most of a command's cost between socket and loop, and uvloop's share of that is smaller
(docs/benchmarks.md). A program of yours that awaits sandboxes may use `run` instead of `asyncio.run`, or `uvloop.run`.

Where a server ends a TLS stream whose reader is behind, uvloop (0.23) drops what it has not read. Sessions and HTTP
answers say how much there is, so that a part is never taken for the whole; whoever reads a stream up to its end, as
`swerl sandbox shell` does, stays on asyncio's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, as `asyncio.run` gives it."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
