"""The ways of weights to engines: over a process group (gloo on CPU, NCCL between GPUs), in place where engines and
trainer share GPUs, or through a folder that both reach: the whole model, or an adapter alone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.errors import EnginePoolError
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.engines.weights import BUCKET_BYTES, WeightLink, WeightSource
from swerl_trainer.weight_bucket import WeightPart

Backend = Literal["gloo", "nccl", "ipc", "disk", "adapter"]


class ProcessGroupLink(WeightLink):
    """A process group of each training rank that has a part of the weights and all engines' ranks; it broadcasts.

    The ranks convert their parts at the same time. An engine receives one bucket at a time, of each part in turn.
    """

    _numbers = itertools.count()

    def __init__(
        self,
        source: WeightSource,
        engines: Sequence[EngineClient],
        backend: str,
        *,
        keep_cache: bool = False,
        check: WeightCheck | None = None,
    ) -> None:
        super().__init__(source, engines, check)
        self.keep_cache = keep_cache
        self._backend = backend
        self._parts: list[WeightPart] = []
        self._names: dict[int, str] = {}  # of the groups that are open, by the rank that sends

    async def close(self) -> None:
        """See WeightLink.close."""
        names, self._names = self._names, {}
        calls = [self._source.disconnect_engines(rank, name) for rank, name in names.items()]
        calls += [engine.leave_update_group(name) for name in names.values() for engine in self.engines]
        await asyncio.gather(*calls, return_exceptions=True)

    async def _open(self, version: int) -> None:
        if self._names:
            return
        # a server has the job's model where training leaves weights as they are, see `EnginePool`
        self._parts = await self._source.weight_parts(BUCKET_BYTES, whole=False)
        for part in self._parts:
            await self._connect(version, part)

    async def _connect(self, version: int, part: WeightPart) -> None:
        name = self._names[part.rank] = f"swerl-{next(self._numbers)}"
        limit = max((engine.bucket_seconds(bucket) for engine in self.engines for bucket in part.buckets), default=0.0)
        address, port = await self._source.weight_endpoint(part.rank)
        world_size = 1 + sum(engine.ranks for engine in self.engines)
        offsets = itertools.accumulate((engine.ranks for engine in self.engines), initial=1)
        trainer = self._source.connect_engines(
            part.rank, address, port, world_size=world_size, group_name=name, backend=self._backend, timeout=limit
        )
        joins = (
            engine.join_update_group(
                address, port, offset=offset, world_size=world_size, name=name, backend=self._backend, timeout=limit
            )
            for engine, offset in zip(self.engines, offsets, strict=False)
        )
        await self._each(version, joins, self._trainer_call(trainer))

    async def _transfer(self, version: int) -> None:
        await asyncio.gather(*(self._source.prepare_bucket(part) for part in self._parts))
        sending: dict[int, asyncio.Task[None]] = {}
        order = list(_in_turn(self._parts))
        for position, (part, number) in enumerate(order):
            if part.rank in sending:
                await sending.pop(part.rank)
            name = self._names[part.rank]
            sending[part.rank] = self._trainer_call(self._source.send_bucket(part, number, group_name=name))
            flush = position == len(order) - 1 and not self.keep_cache
            loads = (
                engine.receive_bucket(part.buckets[number], group=name, version=str(version), flush=flush)
                for engine in self.engines
            )
            await self._each(version, loads)
        await asyncio.gather(*sending.values())


def _in_turn(parts: Sequence[WeightPart]) -> Iterator[tuple[WeightPart, int]]:
    """The buckets of all parts, the first of each, then the second of each, and so on."""
    for number in range(max((len(part.buckets) for part in parts), default=0)):
        yield from ((part, number) for part in parts if number < len(part.buckets))


class CudaIpcLink(WeightLink):
    """Each engine rank reads the buckets in the memory of its own GPU, where a training rank has gathered them."""

    def __init__(self, source: WeightSource, engines: Sequence[EngineClient], check: WeightCheck | None = None) -> None:
        super().__init__(source, engines, check)
        self._ranks: list[list[int]] = []  # per engine, the training rank on each of its ranks' GPUs

    async def adopt(self, version: int) -> bool:
        """False: an engine that has slept has no weights."""
        return False

    async def close(self) -> None:
        """See WeightLink.close."""
        await asyncio.gather(self._source.release_bucket(), return_exceptions=True)

    async def _open(self, version: int) -> None:
        if self._ranks:
            return
        rank_at = {location: rank for rank, location in enumerate(await self._source.locations())}
        for engine in self.engines:
            if missing := [location for location in engine.locations if location not in rank_at]:
                raise EnginePoolError(f"engine {engine.url} shares GPU {missing[0]}, which no training rank uses")
        self._ranks = [[rank_at[location] for location in engine.locations] for engine in self.engines]

    async def _transfer(self, version: int) -> None:
        buckets = await self._source.weight_buckets(BUCKET_BYTES)
        for number in range(len(buckets)):
            last = number == len(buckets) - 1
            handles = await self._source.export_bucket(number)
            loads = (
                engine.read_bucket([handles[rank] for rank in ranks], version=str(version), flush=last)
                for engine, ranks in zip(self.engines, self._ranks, strict=True)
            )
            await self._each(version, loads)
        await self._source.release_bucket()


class DiskLink(WeightLink):
    """Every engine loads the model from a folder; it generates while the trainer writes."""

    def __init__(
        self,
        source: WeightSource,
        engines: Sequence[EngineClient],
        folder: Path,
        *,
        keep_cache: bool = False,
        check: WeightCheck | None = None,
    ) -> None:
        super().__init__(source, engines, check)
        self.keep_cache = keep_cache
        self._folder = folder

    async def send(self, version: int) -> None:
        """See WeightLink.send."""
        await self._source.save_hf(self._folder)
        await super().send(version)

    async def close(self) -> None:
        """See WeightLink.close."""

    async def _open(self, version: int) -> None: ...

    async def _transfer(self, version: int) -> None: ...

    async def _load(self, version: int) -> None:
        loads = (
            engine.load_folder(self._folder, version=str(version), flush=not self.keep_cache) for engine in self.engines
        )
        await self._each(version, loads)


class AdapterLink(WeightLink):
    """Every engine loads the adapter from a folder that trainer and engines reach. Requests that run end early, with
    the tokens that they have, and their senders continue them with the new adapter."""

    def __init__(
        self,
        source: WeightSource,
        engines: Sequence[EngineClient],
        folder: Path,
        check: WeightCheck | None = None,
    ) -> None:
        super().__init__(source, engines, check)
        self._folder = folder

    async def send(self, version: int) -> None:
        """See WeightLink.send."""
        await self._source.save_adapter(self._folder)
        await self._each(version, (engine.pause("abort") for engine in self.engines))
        loads = (engine.load_adapter(self._folder, version=str(version)) for engine in self.engines)
        await self._each(version, loads)
        await self._compare(version)
        await self._each(version, (engine.resume() for engine in self.engines))

    async def adopt(self, version: int) -> bool:
        """False: an engine starts without an adapter."""
        return False

    async def close(self) -> None:
        """See WeightLink.close."""

    async def _open(self, version: int) -> None: ...

    async def _transfer(self, version: int) -> None: ...


def weight_link(
    source: WeightSource,
    engines: Sequence[EngineClient],
    backend: Backend,
    folder: Path | None = None,
    *,
    keep_cache: bool = False,
    check: WeightCheck | None = None,
) -> WeightLink:
    """The link that `backend` names. `folder` is what trainer and engines reach, for the model or an adapter."""
    if backend in ("disk", "adapter"):
        assert folder is not None
        if backend == "adapter":
            return AdapterLink(source, engines, folder, check)
        return DiskLink(source, engines, folder, keep_cache=keep_cache, check=check)
    if backend == "ipc":
        return CudaIpcLink(source, engines, check)
    return ProcessGroupLink(source, engines, backend, keep_cache=keep_cache, check=check)


def update_backend(server: ServerSettings, way: Literal["direct", "disk"] = "direct") -> Backend:
    """How the engines of `server` get weights; NCCL refuses two processes of one group on the same GPU."""
    if server.lora:
        return "adapter"
    if way == "disk":
        return "disk"
    if not server.gpus:
        return "gloo"
    return "ipc" if server.share_gpu else "nccl"
