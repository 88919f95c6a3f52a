"""All engines of a job.

Guarantees: the router uses an engine only while it serves the trainer's present version; a dead engine is replaced and
updated to that version without stopping the others; `serving` lets episodes wait until an engine serves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import aiohttp
from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.errors import EngineCallError, EngineError
from swerl_trainer.engines.handle import EngineHandle
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.weights import Backend, WeightLink, WeightSource, WeightTransferFailed, weight_link

logger = logging.getLogger(__name__)

WATCH_SECONDS = 2.0  # between two checks of each engine's process
RESTARTS = 5  # consecutive failed starts of one engine before the attempt fails
MAX_TRANSFERS = 3  # full transfers of one version; failed engines are replaced in between


@dataclass
class _Slot:
    """One engine's place in the pool."""

    number: int
    handle: EngineHandle
    client: EngineClient | None = None  # None while the engine starts
    restarts: int = 0


class EnginePool:
    """The engines behind one router."""

    def __init__(
        self,
        handles: Sequence[EngineHandle],
        router: Router,
        http: aiohttp.ClientSession,
        *,
        ranks: int = 1,
        backend: Backend = "gloo",
        adapter_folder: Path | None = None,
        keep_cache: bool = False,
    ) -> None:
        self.router = router
        self.replaced = 0  # engines replaced so far
        self._slots = [_Slot(number, handle) for number, handle in enumerate(handles)]
        self._http = http
        self._ranks = ranks
        self._backend = backend
        self._adapter_folder = adapter_folder
        self._keep_cache = keep_cache
        self._source: WeightSource | None = None
        self._version = 0
        self._link: WeightLink | None = None
        self._trainer_lock: asyncio.Lock | None = None
        self._serving = asyncio.Event()

    async def start(self) -> None:
        """Start the router and all servers together; returns when all are ready. Raises EngineStartError."""
        await asyncio.gather(self.router.start(), *(self._start(slot) for slot in self._slots))

    async def attach(self, source: WeightSource, version: int, trainer_lock: asyncio.Lock) -> None:
        """Give all engines `source`'s weights as `version` and let the router use them.

        `trainer_lock` is held while the trainer does anything; a replaced engine waits for it.
        """
        self._source, self._trainer_lock = source, trainer_lock
        async with trainer_lock:
            await self.update_weights(version)
        await asyncio.gather(*(self.router.add(client.url) for client in self._clients()))
        self._serving.set()

    async def watch(self) -> None:
        """Replace dead engines and a dead router, until cancelled. Raises EngineError when an engine cannot be
        replaced."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.router.alive:
                logger.warning("the router is dead; restarting it")
                await self.router.start()
            for slot in self._slots:
                if slot.client is None or not await slot.handle.alive():
                    await self._replace(slot)

    async def update_weights(self, version: int) -> None:
        """Load the trainer's present weights into every engine as `version`; the caller holds the trainer's
        trainer_lock. Engines that sleep wake up first.

        `watch` replaces an engine that fails. Raises WeightTransferFailed when no engine could be updated.
        """
        if self._source is None:
            raise EngineError("update_weights was called before attach: the pool has no weight source")
        self._version = version
        for _ in range(MAX_TRANSFERS):
            await self._call_all("wake")
            clients = self._clients()
            if self._link is None or self._link.engines != tuple(clients):
                await self._unlink()
                self._link = self._linked(clients)
            try:
                return await self._link.send(version)
            except WeightTransferFailed as failed:
                logger.warning("%s", failed)
                self._link = None
                await asyncio.gather(*(self._retire(client) for client in failed.engines))
        raise EngineError(f"weights of version {version}: {MAX_TRANSFERS} transfers failed; see the engines' logs")

    async def serving(self) -> None:
        """Return when at least one engine serves the present version."""
        await self._serving.wait()

    async def sleep(self) -> None:
        """Give the GPUs to the trainer (engines that share them) until `update_weights`; an engine that fails is left
        to the watcher."""
        await self._call_all("sleep")

    async def close(self) -> None:
        """End all servers and the router."""
        stops = (slot.handle.stop() for slot in self._slots)
        await asyncio.gather(asyncio.to_thread(self.router.stop), *stops, return_exceptions=True)

    def _clients(self) -> list[EngineClient]:
        return [slot.client for slot in self._slots if slot.client is not None]

    async def _start(self, slot: _Slot) -> None:
        url = await slot.handle.start()
        slot.client = EngineClient(url, self._http, ranks=self._ranks, locations=slot.handle.locations)

    async def _replace(self, slot: _Slot) -> None:
        logger.warning("engine %d is dead; starting another", slot.number)
        if slot.client is not None:
            await self._retire(slot.client)
        slot.restarts += 1
        try:
            if self._backend == "ipc":  # no engine may size its cache while a step uses the same GPU
                async with self._lock_of(slot):
                    await self._start(slot)
                    await self._send_weights(slot)
            else:
                await self._start(slot)
                async with self._lock_of(slot):
                    await self._send_weights(slot)
            await self._route_to(slot)
        except EngineError:
            slot.client = None
            if slot.restarts >= RESTARTS:
                raise
            logger.exception("engine %d could not be replaced; retrying", slot.number)
            return
        slot.restarts = 0
        self.replaced += 1

    def _lock_of(self, slot: _Slot) -> asyncio.Lock:
        """The lock to hold while the trainer sends weights to this engine."""
        if self._trainer_lock is None:
            raise EngineError(f"engine {slot.number} replaced before the pool was attached")
        return self._trainer_lock

    async def _send_weights(self, slot: _Slot) -> None:
        """Send the present weights to one new engine, over its own link."""
        assert slot.client is not None
        link = self._linked([slot.client])
        await link.send(self._version)
        await link.close()

    def _linked(self, clients: Sequence[EngineClient]) -> WeightLink:
        assert self._source is not None
        return weight_link(self._source, clients, self._backend, self._adapter_folder, keep_cache=self._keep_cache)

    async def _route_to(self, slot: _Slot) -> None:
        """Let the router use a new engine."""
        assert slot.client is not None
        await self.router.add(slot.client.url)
        self._serving.set()
        logger.info("engine %d serves version %d at %s", slot.number, self._version, slot.client.url)

    async def _call_all(self, call: Literal["sleep", "wake"]) -> None:
        clients = self._clients()
        calls = (client.sleep() if call == "sleep" else client.wake() for client in clients)
        results = await asyncio.gather(*calls, return_exceptions=True)
        for client, result in zip(clients, results, strict=True):
            if isinstance(result, EngineError):
                logger.warning("%s", result)
                await self._retire(client)
            elif isinstance(result, BaseException):
                raise result

    async def _retire(self, client: EngineClient) -> None:
        """Remove a dead engine from the router and from its slot."""
        slot = next(slot for slot in self._slots if slot.client is client)
        slot.client = None
        if not self._clients():
            self._serving.clear()
        try:
            await self.router.remove(client.url)
        except (EngineCallError, aiohttp.ClientError):
            logger.exception("engine %d could not be removed from the router", slot.number)
        await slot.handle.stop()

    async def _unlink(self) -> None:
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()
