"""Engines whose weights never change, behind a router of their own: those of a judge or of an evaluation.

Guarantees: `start` returns when all serve, or raises with the end of an engine's log. A dead engine, one that generates
nothing, or a dead router is replaced, several of them at once, and never ends the work: an episode runs without judge
scores, an evaluation's sample is retried.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import aiohttp
from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.errors import EnginePoolError
from swerl_trainer.engines.handle import EngineHandle
from swerl_trainer.engines.health import EngineHealth
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.slot import START_SECONDS, EngineSlot
from swerl_trainer.events import event

logger = logging.getLogger(__name__)

CHECK_SECONDS = 5.0  # between two checks of an engine's process
PROBE_SECONDS = 60.0  # in which an engine must generate a token
PROBE_PAUSE = 30.0  # seconds between two probes of an engine


class StaticEnginePool:
    """The engines of one model; `name`: of the model in logs."""

    def __init__(
        self,
        handles: Sequence[EngineHandle],
        router: Router,
        http: aiohttp.ClientSession,
        name: str,
        *,
        check_seconds: float = CHECK_SECONDS,
        probe_seconds: float = PROBE_SECONDS,
        probe_pause: float = PROBE_PAUSE,
        start_seconds: float = START_SECONDS,
    ) -> None:
        """`start_seconds`: in which a replacement must start; the first start waits for Pods, without a limit."""
        self.router = router
        self._http = http
        self._name = name
        self._check_seconds = check_seconds
        self._probe_seconds = probe_seconds
        self._probe_pause = probe_pause
        self._slots = [EngineSlot(number, handle, start_seconds=start_seconds) for number, handle in enumerate(handles)]
        self._probed: dict[int, float] = {}  # when, by engine
        self._health = EngineHealth()

    async def start(self) -> None:
        """Start router and engines together. Raises EngineStartError."""
        engines = asyncio.gather(*(slot.handle.start() for slot in self._slots))
        _, urls = await asyncio.gather(self.router.start(), engines)
        for slot, url in zip(self._slots, urls, strict=True):
            await self.router.add(url)
            slot.client = EngineClient(url, self._http)

    async def watch(self) -> None:
        """Replace dead engines and a dead router, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat(self._check_router))
            for slot in self._slots:
                tasks.create_task(self._repeat(partial(self._check, slot)))

    async def close(self) -> None:
        """End all engines and the router."""
        stops = (slot.handle.stop() for slot in self._slots)
        await asyncio.gather(asyncio.to_thread(self.router.stop), *stops, return_exceptions=True)

    async def _repeat(self, check: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._check_seconds)
            try:
                await check()
            except (EnginePoolError, aiohttp.ClientError, TimeoutError):
                text = "engines of the %s could not be replaced; retrying"
                logger.exception(text, self._name, extra=event("EngineNotReplaced"))

    async def _check_router(self) -> None:
        if not self.router.alive:
            logger.warning("the router of the %s is dead; restarting it", self._name, extra=event("RouterLost"))
            await self.router.start()
        await self.router.finish_removals()

    async def _check(self, slot: EngineSlot) -> None:
        """Replace the engine of `slot` unless it works."""
        fault = await self._fault(slot)
        if fault is None:
            return
        text = "engine %d of the %s %s; starting another"
        logger.warning(text, slot.number, self._name, fault, extra=event("EngineLost"))
        await self._retire(slot)
        await self._start(slot)
        logger.info("engine %d of the %s is replaced", slot.number, self._name, extra=event("EngineReplaced"))

    async def _fault(self, slot: EngineSlot) -> str | None:
        """Why an engine must be replaced."""
        if slot.client is None or not await slot.handle.alive():
            return "is dead"
        if time.monotonic() - self._probed.get(slot.number, 0.0) < self._probe_pause:
            return None
        began = time.monotonic()
        generated = await slot.client.generates(self._probe_seconds)
        self._probed[slot.number] = ended = time.monotonic()
        health = self._health.assess({slot.number: ended - began if generated else None})
        return f"generates nothing in {self._probe_seconds:g} s" if health[slot.number] == "dead" else None

    async def _start(self, slot: EngineSlot) -> None:
        """Start another engine, which gets requests from then on."""
        self._health.remove(slot.number)
        await slot.start(self._http, ranks=1)
        assert slot.client is not None
        try:
            await self.router.add(slot.client.url)
        except (EnginePoolError, aiohttp.ClientError, TimeoutError):
            await self._retire(slot)
            raise

    async def _retire(self, slot: EngineSlot) -> None:
        """Remove an engine from the router and end it."""
        client, slot.client = slot.client, None
        try:
            if client is not None:
                await self.router.remove(client.url)
        finally:
            await slot.handle.stop()
