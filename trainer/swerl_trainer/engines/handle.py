"""Who owns a server process: the pool's view of it, and the Ray actor that owns one on another node."""

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

NODES_POLL = 1.0  # seconds between two looks at the cluster's nodes


class EngineHandle(Protocol):
    """One engine wherever it runs. `start` may be called again after `stop` or after the engine died."""

    @property
    def locations(self) -> Sequence[Location]:
        """GPUs of its ranks in order, once started; empty unless it shares them with the trainer."""

    async def start(self) -> str:
        """Start a server and return its address once it is ready. Raises EngineStartError."""

    async def alive(self) -> bool:
        """Whether the server's process runs; False also when its node is gone."""

    async def stop(self) -> None:
        """End the server; no-op when there is none."""


class EngineOwner:
    """Owns one server on the node it lives on; used in-process and as a Ray actor. `locations`: its GPUs there, when it
    shares them with the trainer; else those that this process may use."""

    def __init__(self, settings: ServerSettings, log: Path, host: str, locations: Sequence[Location] = ()) -> None:
        self.settings = settings
        self.log = log
        self.host = host
        self.locations = locations
        self._server: EngineServer | None = None
        self._starts = 0

    async def start(self) -> str:
        """Start a server and return its address once it is ready. Raises EngineStartError."""
        await self.stop()
        self._starts += 1
        if self.locations:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(location.device) for location in self.locations)
        log = self.log.with_suffix(f".{self._starts}.log")
        self._server = EngineServer.launch(self.settings, host=self.host, log=log)
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
    """An EngineOwner in a Ray actor; a lost actor is made again at the next `start`."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        number: int,
        log_folder: Path,
        resource: str,
        sharers: int = 0,
        kind: str = "engine",
    ) -> None:
        """`sharers`: engines of the job that share the trainer's GPUs, this one among them; 0: it has its own.
        `kind`: what actors and logs are called, besides their number."""
        self._settings = replace(settings, seed=settings.seed + number)
        self._number = number
        self._name = f"{kind}-{number}"
        self._log = log_folder / f"{self._name}.log"
        self._resource = resource
        self._sharers = sharers
        self._actor: Any = None
        self.locations: Sequence[Location] = ()

    async def start(self) -> str:
        """Start a server and return its address once it is ready. Raises EngineStartError."""
        from ray.exceptions import RayActorError

        try:
            if self._actor is None:
                if self._sharers:
                    self.locations = await self._place()
                self._actor = self._create()
            return str(await self._actor.start.remote())
        except RayActorError as error:
            self._actor = None
            raise EngineStartError(f"{self._name}: its Ray actor was lost while starting: {error}") from error

    async def alive(self) -> bool:
        """Whether the server's process runs; False also when its node is gone."""
        from ray.exceptions import RayActorError

        if self._actor is None:
            return False
        try:
            return bool(await self._actor.alive.remote())
        except RayActorError:
            self._actor = None
            return False

    async def stop(self) -> None:
        """End the server; no-op when there is none."""
        from ray.exceptions import RayActorError

        if self._actor is None:
            return
        try:
            await self._actor.stop.remote()
        except RayActorError:
            self._actor = None

    async def _place(self) -> Sequence[Location]:
        """The GPUs of this engine among those that share, once the nodes of all of them have joined."""
        import ray

        deadline = time.monotonic() + READY_TIMEOUT
        while len(places := shared_places(ray.nodes(), self._resource, self._settings.gpus)) < self._sharers:
            if time.monotonic() > deadline:
                raise EngineStartError(
                    f"{self._name}: the cluster's nodes hold {len(places)} of {self._sharers} engines that share the "
                    "trainer's GPUs; look for train Pods that are not running"
                )
            await asyncio.sleep(NODES_POLL)
        return places[self._number]

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


class EngineActor(EngineOwner):
    """An EngineOwner that listens on its Ray node's address."""

    def __init__(self, settings: ServerSettings, log: Path, locations: Sequence[Location]) -> None:
        import ray

        super().__init__(settings, log, ray.util.get_node_ip_address(), locations)


def shared_places(nodes: Sequence[Mapping[str, Any]], resource: str, gpus: int) -> list[tuple[Location, ...]]:
    """GPUs of every engine that shares the trainer's, `gpus` each; the same for all engines that ask.

    `nodes`: as `ray.nodes()` has them; a node holds as many engines as it has units of `resource`.
    """
    return [
        tuple(Location(str(node["NodeID"]), engine * gpus + i) for i in range(gpus))
        for node in sorted(nodes, key=lambda node: str(node["NodeID"]))
        if node["Alive"]
        for engine in range(int(node["Resources"].get(resource, 0)))
    ]
