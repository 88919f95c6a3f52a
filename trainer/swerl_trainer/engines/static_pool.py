"""Engines whose weights never change, behind a router of their own: those of a judge or of an evaluation.

Guarantees: `start` returns when all serve, or raises with the end of an engine's log. A dead engine or router is
replaced and never ends the work: an episode runs without judge scores, an evaluation's sample is retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import aiohttp
from swerl_trainer.engines.errors import EngineError
from swerl_trainer.engines.handle import EngineHandle
from swerl_trainer.engines.router import Router
from swerl_trainer.events import event

logger = logging.getLogger(__name__)

CHECK_SECONDS = 5.0  # between two checks of each engine's process


class StaticEnginePool:
    """The engines of one model; `name`: of the model in logs."""

    def __init__(
        self, handles: Sequence[EngineHandle], router: Router, name: str, *, check_seconds: float = CHECK_SECONDS
    ) -> None:
        self.router = router
        self._name = name
        self._check_seconds = check_seconds
        self._handles = list(handles)
        self._urls: dict[int, str] = {}  # of the router's engines

    async def start(self) -> None:
        """Start router and engines together. Raises EngineStartError."""
        engines = asyncio.gather(*(handle.start() for handle in self._handles))
        _, urls = await asyncio.gather(self.router.start(), engines)
        for number, url in enumerate(urls):
            await self._serve(number, url)

    async def watch(self) -> None:
        """Replace dead engines and a dead router, until cancelled."""
        while True:
            await asyncio.sleep(self._check_seconds)
            try:
                await self._check()
            except (EngineError, aiohttp.ClientError, TimeoutError):
                text = "engines of the %s could not be replaced; retrying"
                logger.exception(text, self._name, extra=event("EngineNotReplaced"))

    async def close(self) -> None:
        """End all engines and the router."""
        stops = (handle.stop() for handle in self._handles)
        await asyncio.gather(asyncio.to_thread(self.router.stop), *stops, return_exceptions=True)

    async def _check(self) -> None:
        if not self.router.alive:
            logger.warning("the router of the %s is dead; restarting it", self._name, extra=event("RouterLost"))
            await self.router.start()
        await self.router.finish_removals()
        for number, handle in enumerate(self._handles):
            if number in self._urls and await handle.alive():
                continue
            text = "engine %d of the %s is dead; starting another"
            logger.warning(text, number, self._name, extra=event("EngineLost"))
            if url := self._urls.pop(number, None):
                await self.router.remove(url)
            await self._serve(number, await handle.start())
            logger.info("engine %d of the %s is replaced", number, self._name, extra=event("EngineReplaced"))

    async def _serve(self, number: int, url: str) -> None:
        await self.router.add(url)
        self._urls[number] = url
