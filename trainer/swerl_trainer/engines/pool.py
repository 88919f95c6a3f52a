"""All engines of a job.

Guarantees: the router uses an engine only while it serves the trainer's present version; a dead engine, or one that
generates nothing, is replaced and updated to that version without stopping the others, several of them at once; an
engine that is much slower than the others gets no requests until it recovers; `serving` lets episodes wait until an
engine serves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import aiohttp
from swerl_trainer.engines.client import CONTROL_TIMEOUT, EngineClient
from swerl_trainer.engines.errors import EngineCallError, EnginePoolError
from swerl_trainer.engines.handle import EngineHandle
from swerl_trainer.engines.health import EngineHealth, HealthState
from swerl_trainer.engines.links import Backend, weight_link
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.slot import EngineSlot, Joined, at_once
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.engines.weights import WeightLink, WeightSource, WeightTransferFailed
from swerl_trainer.events import event

logger = logging.getLogger(__name__)

WATCH_SECONDS = 2.0  # between two checks of each engine's process
PROBE_PAUSE = 30.0  # seconds between two rounds of probes that generate
RESTARTS = 5  # consecutive failed starts of one engine before the attempt fails
UNKNOWN = -1.0  # answer of an engine that may not generate now
MAX_TRANSFERS = 3  # full transfers of one version; failed engines are replaced in between


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
        folder: Path | None = None,
        keep_cache: bool = False,
        probe_seconds: float = 0.0,
        probe_pause: float = PROBE_PAUSE,
        health: EngineHealth | None = None,
        control_timeout: float = CONTROL_TIMEOUT,
        needs_model: bool = False,
        check: WeightCheck | None = None,
    ) -> None:
        """`folder`: where the backends disk and adapter pass weights on. `probe_seconds`: in which an engine must
        generate a token; 0: it is not probed. `control_timeout`: see EngineClient. `needs_model`: every engine reads
        the job's model, because the trainer sends only what training changes. `check`: else of undivided experts."""
        self.router = router
        self.replaced = 0  # engines replaced so far
        self.slow: set[int] = set()  # engines that get no requests because they are slow
        self.check = check or WeightCheck()
        self._health = health or EngineHealth()
        self._probe_seconds = probe_seconds
        self._probe_pause = probe_pause
        self._repairs: dict[int, asyncio.Task[None]] = {}
        self._slots = [EngineSlot(number, handle, control_timeout) for number, handle in enumerate(handles)]
        self._http = http
        self._ranks = ranks
        self._backend = backend
        self._needs_model = needs_model or backend == "adapter"
        self._folder = folder
        self._keep_cache = keep_cache
        self._source: WeightSource | None = None
        self._version = 0
        self._link: WeightLink | None = None
        self._trainer_lock: asyncio.Lock | None = None
        self._serving = asyncio.Event()

    async def start(self, joined: Joined = at_once, *, reads_model: bool = True) -> None:
        """Start the router and all servers together; returns when all are ready. `joined(n)` returns when there is
        room for n engines. `reads_model`: False where the trainer's weights are others. Raises EngineStartError."""
        reads = reads_model or self._needs_model
        starts = (slot.start(self._http, self._ranks, joined, reads_model=reads) for slot in self._slots)
        await asyncio.gather(self.router.start(), *starts)

    async def attach(
        self, source: WeightSource, version: int, trainer_lock: asyncio.Lock, *, as_started: bool = False
    ) -> None:
        """Give all engines `source`'s weights as `version` and let the router use them. `as_started`: they started with
        these weights, which are compared and sent only if they differ.

        `trainer_lock` is held while the trainer does anything; a replaced engine waits for it.
        """
        self._source, self._trainer_lock = source, trainer_lock
        async with trainer_lock:
            self._version = version
            if not (as_started and await self._linked(self.clients()).adopt(version)):
                await self.update_weights(version)
        await asyncio.gather(*(self.router.add(client.url) for client in self.clients()))
        self._serving.set()

    async def watch(self) -> None:
        """Replace dead engines and a dead router until cancelled. Raises a group of errors if that fails for good."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_processes(tasks))
            if self._probe_seconds:
                tasks.create_task(self._probe_forever(tasks))

    async def _watch_processes(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.router.alive:
                logger.warning("the router is dead; restarting it", extra=event("RouterLost"))
                await self.router.start()
            await self.router.finish_removals()
            idle = [slot for slot in self._slots if not self._in_repair(slot)]
            alive = await asyncio.gather(*(slot.handle.alive() for slot in idle))
            for slot, is_alive in zip(idle, alive, strict=True):
                if slot.client is None or not is_alive:
                    self._repair(slot, tasks, "is dead")

    async def _probe_forever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await asyncio.sleep(self._probe_pause)
            slots = [slot for slot in self._slots if not self._in_repair(slot)]
            answers = await asyncio.gather(*(self._probe(slot) for slot in slots))
            probed = {slot.number: answer for slot, answer in zip(slots, answers, strict=True) if answer != UNKNOWN}
            for number, health in self._health.assess(probed).items():
                if health == "dead" and not self._in_repair(self._slots[number]):
                    self._repair(self._slots[number], tasks, f"generates nothing in {self._probe_seconds:g} s")
                else:
                    await self._route_around(self._slots[number], health)

    async def _probe(self, slot: EngineSlot) -> float | None:
        """Seconds until the engine generated, None if it did not, UNKNOWN where it may not generate now."""
        client = slot.client
        if client is None or client.paused or not self._serving.is_set():
            return UNKNOWN
        pauses, began = client.pauses, time.monotonic()
        generated = await client.generates(self._probe_seconds)
        if slot.client is not client or client.pauses != pauses:
            return UNKNOWN
        return time.monotonic() - began if generated else None

    async def _route_around(self, slot: EngineSlot, health: HealthState) -> None:
        """Take a slow engine from the router, and give it back when it has recovered."""
        if slot.client is None or (health == "slow") == (slot.number in self.slow):
            return
        try:
            if health == "slow":
                text = "engine %d is much slower than the others; it gets no requests"
                logger.warning(text, slot.number, extra=event("EngineSlow"))
                await self.router.remove(slot.client.url)
                self.slow.add(slot.number)
            else:
                logger.info("engine %d has recovered", slot.number, extra=event("EngineRecovered"))
                await self.router.add(slot.client.url)
                self.slow.discard(slot.number)
        except (EngineCallError, aiohttp.ClientError, TimeoutError):
            logger.exception("the router did not change its use of engine %d; retrying", slot.number)

    def _in_repair(self, slot: EngineSlot) -> bool:
        return slot.number in self._repairs and not self._repairs[slot.number].done()

    def _repair(self, slot: EngineSlot, tasks: asyncio.TaskGroup, fault: str) -> None:
        """Replace an engine while others are watched, and replaced."""
        logger.warning("engine %d %s; starting another", slot.number, fault, extra=event("EngineLost"))
        self._repairs[slot.number] = tasks.create_task(self._replace(slot), name=f"engine {slot.number}")

    async def update_weights(self, version: int) -> None:
        """Load the trainer's present weights into every engine as `version`; the caller holds the trainer_lock. Engines
        that sleep wake up first; `watch` replaces one that fails. Raises EnginePoolError when each transfer fails."""
        if self._source is None:
            raise EnginePoolError("update_weights was called before attach: the pool has no weight source")
        self._version = version
        for _ in range(MAX_TRANSFERS):
            await self._call_all("wake")
            if not (clients := self.clients()):
                return None  # those that start get this version
            if self._link is None or self._link.engines != tuple(clients):
                if self._link is not None:
                    await self._link.close()
                self._link = self._linked(clients)
            try:
                return await self._link.send(version)
            except WeightTransferFailed as failed:
                logger.warning("%s", failed, extra=event("WeightUpdateFailed"))
                broken, self._link = self._link, None
                await asyncio.gather(*(self._retire(client) for client in failed.engines))
                await broken.abandon()
        raise EnginePoolError(f"weights of version {version}: {MAX_TRANSFERS} transfers failed; see the engines' logs")

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

    def clients(self) -> list[EngineClient]:
        """The engines that are not being replaced."""
        return [slot.client for slot in self._slots if slot.client is not None]

    async def _replace(self, slot: EngineSlot) -> None:
        self._health.remove(slot.number)
        self.slow.discard(slot.number)
        if slot.client is not None:
            await self._retire(slot.client)
        slot.restarts += 1
        try:
            if self._backend == "ipc":  # no engine may size its cache while a step uses the same GPU
                async with self._lock_of(slot):
                    await slot.start(self._http, self._ranks, reads_model=self._needs_model)
                    await self._send_weights(slot)
            else:
                await slot.start(self._http, self._ranks, reads_model=self._needs_model)
                async with self._lock_of(slot):
                    await self._send_weights(slot)
            await self._route_to(slot)
        except (EnginePoolError, aiohttp.ClientError, TimeoutError):
            if slot.client is not None:
                await self._retire(slot.client)
            if slot.restarts >= RESTARTS:
                raise
            logger.exception("engine %d could not be replaced; retrying", slot.number, extra=event("EngineNotReplaced"))
            return
        slot.restarts = 0
        self.replaced += 1

    def _lock_of(self, slot: EngineSlot) -> asyncio.Lock:
        """The lock to hold while the trainer sends weights to this engine."""
        if self._trainer_lock is None:
            raise EnginePoolError(f"engine {slot.number} replaced before the pool was attached")
        return self._trainer_lock

    async def _send_weights(self, slot: EngineSlot) -> None:
        """Send the present weights to one new engine, over its own link."""
        if slot.client is None:
            raise EnginePoolError(f"engine {slot.number} was lost before it had the weights")
        link = self._linked([slot.client])
        try:
            await link.send(self._version)
        except WeightTransferFailed:
            await slot.handle.stop()
            await link.abandon()
            raise
        await link.close()

    def _linked(self, clients: Sequence[EngineClient]) -> WeightLink:
        assert self._source is not None
        keep = self._keep_cache
        return weight_link(self._source, clients, self._backend, self._folder, keep_cache=keep, check=self.check)

    async def _route_to(self, slot: EngineSlot) -> None:
        """Let the router use a new engine."""
        assert slot.client is not None
        url = slot.client.url
        await self.router.add(url)
        self._serving.set()
        text = "engine %d is replaced; it serves version %d at %s"
        logger.info(text, slot.number, self._version, url, extra=event("EngineReplaced"))

    async def _call_all(self, call: Literal["sleep", "wake"]) -> None:
        clients = self.clients()
        calls = (client.sleep() if call == "sleep" else client.wake() for client in clients)
        results = await asyncio.gather(*calls, return_exceptions=True)
        for client, result in zip(clients, results, strict=True):
            if isinstance(result, EnginePoolError):
                logger.warning("%s", result)
                await self._retire(client)
            elif isinstance(result, BaseException):
                raise result

    async def _retire(self, client: EngineClient) -> None:
        """Remove a dead engine from the router and from its slot; no-op when a concurrent call has removed it."""
        slot = next((slot for slot in self._slots if slot.client is client), None)
        if slot is None:
            return
        slot.client = None
        if not self.clients():
            self._serving.clear()
        if all(other.number in self.slow for other in self._slots if other.client is not None):
            for other in self._slots:
                await self._route_around(other, "healthy")
        try:
            await self.router.remove(client.url)
        except (EngineCallError, aiohttp.ClientError, TimeoutError):
            logger.exception("engine %d could not be removed from the router", slot.number)
        await slot.handle.stop()
