"""The event loop of our own programs: uvloop's if installed, else asyncio's.

Most of a command's client cost lies between socket and event loop; with uvloop that part is smaller
(docs/sandbox-benchmarks.md). Programs that await sandboxes may use `run` instead of `asyncio.run`, or `uvloop.run`.

When a server closes a TLS stream that has unread data, uvloop (0.23) drops that data. Sessions and HTTP responses carry
their length, so they never accept partial data. Code that reads a stream up to its end, such as `swerl sandbox shell`,
stays on asyncio's loop.
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
    """The result of `work`; see `asyncio.run`."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
