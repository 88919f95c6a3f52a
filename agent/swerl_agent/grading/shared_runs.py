"""Runs that say the same for every patch of a task: each is made once, however many wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedRuns(Generic[T]):
    """Results by key. One that fails, or that is not `lasting`, is found out again for a later caller."""

    def __init__(self, lasting: Callable[[T], bool] = lambda result: True) -> None:
        self._lasting = lasting
        self._running: dict[str, asyncio.Task[T]] = {}

    async def result(self, key: str, run: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `run` returns; it goes on when this caller is cancelled, and others get its result or error, too."""
        if key not in self._running:
            self._running[key] = asyncio.create_task(run())
            self._running[key].add_done_callback(partial(self._drop, key))
        return await asyncio.shield(self._running[key])

    def _drop(self, key: str, done: asyncio.Task[T]) -> None:
        if done.cancelled() or done.exception() or not self._lasting(done.result()):
            self._running.pop(key, None)

    async def close(self) -> None:
        """Stop what still runs."""
        for running in self._running.values():
            running.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
