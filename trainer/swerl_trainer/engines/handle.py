"""Handles of one engine: in this process, and in a Ray actor on another node."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from swerl_trainer.engines.errors import EngineStartError
from swerl_trainer.engines.server import READY_TIMEOUT, EngineServer, ServerSettings
from swerl_trainer.location import Location

ACTOR_SECONDS = 60.0  # in which an actor answers a call that does nothing long
NODES_POLL = 1.0  # seconds between two checks of the cluster's nodes


class EngineHandle(Protocol):
    """One engine wherever it runs. `start` may be called again after `stop` or after the engine died."""

    @property
    def locations(self) -> Sequence[Location]:
        """GPUs of its ranks in order, once started; empty unless it shares them with the trainer."""

    async def start(self, *, reads_model: bool = True) -> str:
        """Start a server and return its address once it is ready. Raises EngineStartError.

        `reads_model`: False for random weights, which the caller replaces before it uses the engine.
        """

    async def alive(self) -> bool:
        """Whether the server's process runs; False also when its node is gone."""

    async def stop(self) -> None:
        """End the server; no-op when there is none."""


class LocalEngine:
    """One server on the node of this process; used in-process and as a Ray actor.

    `locations`: its GPUs there if it shares them with the trainer; otherwise it uses those of this process.
    """

    def __init__(self, settings: ServerSettings, log: Path, host: str, locations: Sequence[Location] = ()) -> None:
        self.settings = settings
        self.log = log
        self.host = host
        self.locations = locations
        self._server: EngineServer | None = None
        self._starts = 0

    async def start(self, *, reads_model: bool = True) -> str:
        """See EngineHandle."""
        await self.stop()
        self._starts += 1
        if self.locations:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(location.device) for location in self.locations)
        log = self.log.with_suffix(f".{self._starts}.log")
        settings = replace(self.settings, reads_model=reads_model)
        self._server = EngineServer.launch(settings, host=self.host, log=log)
        try:
            await self._server.ready()
        except BaseException:
            await self.stop()
            raise
        return self._server.url

    async def alive(self) -> bool:
        """Whether the server's process runs."""
        return self._server is not None and self._server.alive

    async def stop(self) -> None:
        """End the server; no-op when there is none."""
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.stop)


class RayEngine:
    """A LocalEngine in a Ray actor; a lost actor is replaced at the next `start`."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        number: int,
        log_folder: Path,
        resource: str,
        colocated_engines: int = 0,
        kind: str = "engine",
    ) -> None:
        """`colocated_engines`: engines of the job that share the trainer's GPUs, including this one; 0: it has its own.

        `kind`: name of actors and logs, before their number.
        """
        log = replace(settings.log, ids={**settings.log.ids, kind: number})
        self._settings = replace(settings, seed=settings.seed + number, log=log)
        self._number = number
        self._name = f"{kind}-{number}"
        self._log = log_folder / f"{self._name}.log"
        self._resource = resource
        self._colocated_engines = colocated_engines
        self._actor: Any = None
        self.locations: Sequence[Location] = ()

    async def start(self, *, reads_model: bool = True) -> str:
        """See EngineHandle."""
        from ray.exceptions import RayActorError

        try:
            if self._actor is None:
                if self._colocated_engines:
                    self.locations = await self._assign_gpus()
                self._actor = self._create()
            return str(await self._actor.start.remote(reads_model=reads_model))
        except RayActorError as error:
            self._actor = None
            raise EngineStartError(f"{self._name}: its Ray actor was lost while starting: {error}") from error

    async def alive(self) -> bool:
        """Whether the server's process runs; False also when its node is gone or does not answer."""
        from ray.exceptions import RayActorError

        if self._actor is None:
            return False
        try:
            return bool(await _answer(self._actor.alive.remote()))
        except TimeoutError:
            return False
        except RayActorError:
            self._actor = None
            return False

    async def stop(self) -> None:
        """End the server; no-op when there is none."""
        from ray.exceptions import RayActorError

        if self._actor is None:
            return
        try:
            await _answer(self._actor.stop.remote())
        except TimeoutError:
            import ray

            ray.kill(self._actor, no_restart=True)
            self._actor = None
        except RayActorError:
            self._actor = None

    async def _assign_gpus(self) -> Sequence[Location]:
        """The GPUs of this engine among those that share, once the nodes of all of them have joined."""
        import ray

        deadline = time.monotonic() + READY_TIMEOUT
        while (
            len(locations := shared_gpu_locations(ray.nodes(), self._resource, self._settings.gpus))
            < self._colocated_engines
        ):
            if time.monotonic() > deadline:
                raise EngineStartError(
                    f"{self._name}: the cluster's nodes hold {len(locations)} of {self._colocated_engines} engines "
                    "that share the trainer's GPUs; check for train Pods that are not running"
                )
            await asyncio.sleep(NODES_POLL)
        return locations[self._number]

    def _create(self) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options: dict[str, Any] = {"num_gpus": self._settings.gpus}
        if self.locations:  # Ray has given these GPUs to training ranks
            strategy = NodeAffinitySchedulingStrategy(self.locations[0].node, soft=False)
            options = {"num_gpus": 0, "scheduling_strategy": strategy}
        remote = ray.remote(EngineActor)
        return remote.options(
            num_cpus=0, resources={self._resource: 1}, max_restarts=0, name=self._name, **options
        ).remote(self._settings, self._log, self.locations)


class EngineActor(LocalEngine):
    """A LocalEngine that listens on its Ray node's address."""

    def __init__(self, settings: ServerSettings, log: Path, locations: Sequence[Location]) -> None:
        import ray

        super().__init__(settings, log, ray.util.get_node_ip_address(), locations)


async def _answer(call: Any) -> Any:
    """The answer to a call of an actor. Raises TimeoutError after ACTOR_SECONDS."""
    async with asyncio.timeout(ACTOR_SECONDS):
        return await call


def shared_gpu_locations(nodes: Sequence[Mapping[str, Any]], resource: str, gpus: int) -> list[tuple[Location, ...]]:
    """GPUs of every engine that shares the trainer's, `gpus` each; the same for all engines that ask.

    `nodes`: as `ray.nodes()` has them; a node holds as many engines as it has units of `resource`.
    """
    return [
        tuple(Location(str(node["NodeID"]), engine * gpus + i) for i in range(gpus))
        for node in sorted(nodes, key=lambda node: str(node["NodeID"]))
        if node["Alive"]
        for engine in range(int(node["Resources"].get(resource, 0)))
    ]
