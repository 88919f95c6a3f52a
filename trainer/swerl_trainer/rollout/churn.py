"""When Pods start and end beside the episodes of a worker: at any time, or while none acts.

Guarantees where they do so while no episode acts: episodes that ask for their sandboxes at about the same time begin
together, when all of them have one, or none has got one for a while; gradings begin when no episode acts and the
sandboxes that are made ahead are ready, or none of these has become so for a while; a removal that is put off begins
as soon as no episode acts or is about to, or the next removal finds others waiting for room; a removal that has begun
ends, whatever becomes of whoever asked for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from swerl_api import ChurnWhile

Removal = Callable[[], Coroutine[Any, Any, None]]
SETTLE = 0.2  # seconds without another episode that asks, after which one with a sandbox begins
PATIENCE = 5.0  # seconds without another sandbox after which an episode begins nevertheless: there may be no room
LONGEST = 20.0  # seconds that an episode with a sandbox waits for others', and a grading for sandboxes, at most
ASKED_WITHIN = 0.5  # seconds after the last episode acted, within which sandboxes are asked for that are made ahead
LOOK = 0.1  # seconds between two looks at how many sandboxes are pending


class Churn:
    """Episodes on one side; sandboxes that are made or removed, and gradings, on the other."""

    def __init__(self, churn_while: ChurnWhile, pending: Callable[[], int]) -> None:
        """`pending`: sandboxes that are not ready yet, to which those that are removed may make room."""
        self._always = churn_while == "always"
        self._pending = pending
        self._acting = self._claiming = 0  # acting: or about to, with a sandbox
        self._rest = asyncio.Event()  # no episode acts
        self._rest.set()
        self._changed = asyncio.Event()  # replaced by each claim that begins or ends
        self._put_off: list[Removal] = []
        self._begun: set[asyncio.Task[None]] = set()

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """For the time that an episode waits for its sandbox."""
        self._count_claim(1)
        try:
            yield
        finally:
            self._count_claim(-1)

    @asynccontextmanager
    async def acting(self) -> AsyncIterator[None]:
        """For the time that an episode acts, which begins when it may."""
        self._acting += 1
        self._rest.clear()
        try:
            if not self._always:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LONGEST):
                        await self._others_claimed()
            yield
        finally:
            self._acting -= 1
            if not self._acting:
                self._rest.set()

    async def at_rest(self) -> None:
        """Returns when a Pod may start that no episode waits for, now or soon."""
        if self._always:
            return
        await self._rest.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                await self._ahead_made()
        await self._rest.wait()

    async def remove(self, removal: Removal) -> None:
        """Returns when it is done, or put off; what may be removed now, is."""
        if self._always:
            await asyncio.shield(self.begin(removal()))
            return
        self._put_off.append(removal)
        if not self._acting or self._pending():
            put_off, self._put_off = self._put_off, []
            for one in put_off:
                self.begin(one())

    def begin(self, removal: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """In the background, whatever is acting."""
        task = asyncio.create_task(removal)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    async def close(self) -> None:
        """Wait for what has begun; what was put off is nobody's any more."""
        self._put_off.clear()
        await asyncio.gather(*self._begun, return_exceptions=True)

    async def _others_claimed(self) -> None:
        """Raises TimeoutError when nobody asks for a sandbox, or none of those who do has got one, for a while."""
        while True:
            async with asyncio.timeout(PATIENCE if self._claiming else SETTLE):
                await self._changed.wait()

    async def _ahead_made(self) -> None:
        """Returns, too, when an episode acts again, or none of the sandboxes becomes ready for a while."""
        await asyncio.sleep(ASKED_WITHIN)
        fewest, since = self._pending(), time.monotonic()
        while self._pending() and self._rest.is_set() and time.monotonic() - since < PATIENCE:
            await asyncio.sleep(LOOK)
            if (pending := self._pending()) < fewest:
                fewest, since = pending, time.monotonic()

    def _count_claim(self, more: int) -> None:
        self._claiming += more
        self._changed.set()
        self._changed = asyncio.Event()
