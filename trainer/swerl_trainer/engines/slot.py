"""One engine's place in the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
from swerl_trainer.engines.client import CONTROL_TIMEOUT, EngineClient
from swerl_trainer.engines.errors import EngineStartError
from swerl_trainer.engines.handle import EngineHandle
from swerl_trainer.engines.server import READY_TIMEOUT

START_SECONDS = READY_TIMEOUT + 120.0  # for an engine to start
Joined = Callable[[int], Awaitable[None]]  # argument: number of engines


async def at_once(engines: int) -> None:
    """There is room for any number of engines."""


@dataclass
class EngineSlot:
    """A handle, and a client while its engine runs."""

    number: int
    handle: EngineHandle
    control_timeout: float = CONTROL_TIMEOUT
    client: EngineClient | None = None  # None while the engine starts
    restarts: int = 0
    start_seconds: float = START_SECONDS

    async def start(
        self, http: aiohttp.ClientSession, ranks: int, joined: Joined = at_once, *, reads_model: bool = True
    ) -> None:
        """Start an engine of `ranks` tensor-parallel ranks, once its Pod has joined. Raises EngineStartError.

        `reads_model` as in `EngineHandle.start`.
        """
        await joined(self.number + 1)
        try:
            async with asyncio.timeout(self.start_seconds):
                url = await self.handle.start(reads_model=reads_model)
        except TimeoutError as error:
            await self.handle.stop()
            raise EngineStartError(f"engine {self.number} did not start in {self.start_seconds:.0f} s") from error
        self.client = EngineClient(
            url, http, ranks=ranks, locations=self.handle.locations, control_timeout=self.control_timeout
        )
