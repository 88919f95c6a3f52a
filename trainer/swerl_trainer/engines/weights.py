"""Sending the trainer's weights to engines: over a process group (gloo on CPU, NCCL between GPUs), in place where
engines and trainer share GPUs, or an adapter alone through a folder.

Guarantees: an engine reports a version only when all of that version's weights are loaded; requests that were
running are retracted and recomputed with the new weights, so no cache of old weights survives, unless `keep_cache` asks
for it; a failed transfer names the engines that must be replaced, and leaves the others waiting for the next full
transfer.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from swerl_trainer.engines.client import EngineClient, PauseMode
from swerl_trainer.engines.errors import EngineError
from swerl_trainer.location import Location
from swerl_trainer.weight_bucket import WeightBucket

Backend = Literal["gloo", "nccl", "ipc", "adapter"]
BUCKET_BYTES = 512 * 2**20  # flat buffer per transfer, on both sides


class WeightSource(Protocol):
    """The training side, see `TrainGroup`."""

    async def weight_endpoint(self) -> tuple[str, int]: ...

    async def connect_engines(
        self, address: str, port: int, *, world_size: int, group_name: str, backend: str, timeout: float = 300.0
    ) -> None: ...

    async def weight_buckets(self, max_bytes: int = BUCKET_BYTES, *, whole: bool = True) -> list[WeightBucket]: ...

    async def broadcast_bucket(self, number: int, *, group_name: str) -> None: ...

    async def disconnect_engines(self, group_name: str) -> None: ...

    async def locations(self) -> list[Location]: ...

    async def export_bucket(self, number: int) -> list[str]: ...

    async def release_bucket(self) -> None: ...

    async def save_adapter(self, folder: Path) -> None: ...


class WeightTransferFailed(EngineError):
    """Some engines did not receive the weights; `engines` must be replaced before they serve again."""

    def __init__(self, version: int, engines: Sequence[EngineClient], reason: BaseException) -> None:
        super().__init__(f"weights of version {version} did not reach {[e.url for e in engines]}: {reason}")
        self.engines = tuple(engines)


class WeightLink(ABC):
    """The connection from the trainer to a set of engines; opened once, used for every version."""

    keep_cache = False  # requests that run go on with the keys and values of the weights before

    def __init__(self, source: WeightSource, engines: Sequence[EngineClient]) -> None:
        self.engines = tuple(engines)
        self._source = source

    async def send(self, version: int) -> None:
        """Load the trainer's present weights into all engines as `version`.

        Raises WeightTransferFailed; the link is closed then.
        """
        try:
            mode: PauseMode = "in_place" if self.keep_cache else "retract"
            await self._each(version, (engine.pause(mode) for engine in self.engines))
            await self._open(version)
            await self._each(version, (engine.begin_update() for engine in self.engines))
            await self._transfer(version)
            await self._each(version, (engine.end_update() for engine in self.engines))
            await self._each(version, (engine.resume() for engine in self.engines))
        except BaseException as error:
            await self.close()
            failed = error.engines if isinstance(error, WeightTransferFailed) else ()
            await self._end_updates([engine for engine in self.engines if engine not in failed])
            raise

    async def _end_updates(self, engines: Sequence[EngineClient]) -> None:
        """Close the engines' updates if they are open; an engine with an open update refuses the next one."""
        await asyncio.gather(*(engine.end_update() for engine in engines), return_exceptions=True)

    @abstractmethod
    async def close(self) -> None:
        """Release the resources on both sides; ignores dead engines."""

    @abstractmethod
    async def _open(self, version: int) -> None: ...

    @abstractmethod
    async def _transfer(self, version: int) -> None: ...

    async def _each(
        self, version: int, calls: Iterable[Awaitable[None]], trainer: Awaitable[None] | None = None
    ) -> None:
        """Run one call per engine concurrently, with the trainer's part; all end before the first failure is raised."""
        concurrent = [*calls, *([trainer] if trainer is not None else [])]
        results = await asyncio.gather(*concurrent, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if not failures:
            return
        failed = [e for e, result in zip(self.engines, results, strict=False) if isinstance(result, BaseException)]
        if failed:
            raise WeightTransferFailed(version, failed, failures[0])
        raise failures[0]


class ProcessGroupLink(WeightLink):
    """A process group of the trainer's rank 0 and all engines' ranks; rank 0 broadcasts."""

    _numbers = itertools.count()

    def __init__(
        self, source: WeightSource, engines: Sequence[EngineClient], backend: str, *, keep_cache: bool = False
    ) -> None:
        super().__init__(source, engines)
        self.keep_cache = keep_cache
        self._backend = backend
        self._name = ""

    async def close(self) -> None:
        """See WeightLink.close."""
        if not self._name:
            return
        name, self._name = self._name, ""
        await asyncio.gather(
            self._source.disconnect_engines(name),
            *(engine.leave_update_group(name) for engine in self.engines),
            return_exceptions=True,
        )

    async def _open(self, version: int) -> None:
        if self._name:
            return
        self._name = f"swerl-{next(self._numbers)}"
        address, port = await self._source.weight_endpoint()
        world_size = 1 + sum(engine.ranks for engine in self.engines)
        offsets = itertools.accumulate((engine.ranks for engine in self.engines), initial=1)
        trainer = self._source.connect_engines(
            address, port, world_size=world_size, group_name=self._name, backend=self._backend
        )
        joins = (
            engine.join_update_group(
                address, port, offset=offset, world_size=world_size, name=self._name, backend=self._backend
            )
            for engine, offset in zip(self.engines, offsets, strict=False)
        )
        await self._each(version, joins, trainer)

    async def _transfer(self, version: int) -> None:
        # a server starts with the job's model: it has what training never changes
        buckets = await self._source.weight_buckets(BUCKET_BYTES, whole=False)
        for number, bucket in enumerate(buckets):
            flush = number == len(buckets) - 1 and not self.keep_cache
            loads = (
                engine.receive_bucket(bucket, group=self._name, version=str(version), flush=flush)
                for engine in self.engines
            )
            await self._each(version, loads, self._source.broadcast_bucket(number, group_name=self._name))


class CudaIpcLink(WeightLink):
    """Each engine rank reads the buckets in the memory of its own GPU, where a training rank has gathered them."""

    def __init__(self, source: WeightSource, engines: Sequence[EngineClient]) -> None:
        super().__init__(source, engines)
        self._ranks: list[list[int]] = []  # per engine, the training rank on each of its ranks' GPUs

    async def close(self) -> None:
        """See WeightLink.close."""
        await asyncio.gather(self._source.release_bucket(), return_exceptions=True)

    async def _open(self, version: int) -> None:
        if self._ranks:
            return
        rank_at = {location: rank for rank, location in enumerate(await self._source.locations())}
        for engine in self.engines:
            if missing := [location for location in engine.locations if location not in rank_at]:
                raise EngineError(f"engine {engine.url} shares GPU {missing[0]}, which no training rank uses")
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


class AdapterLink(WeightLink):
    """Every engine loads the adapter from a folder that trainer and engines reach. Requests that run end early, with
    the tokens that they have, and their senders continue them with the new adapter."""

    def __init__(self, source: WeightSource, engines: Sequence[EngineClient], folder: Path) -> None:
        super().__init__(source, engines)
        self._folder = folder

    async def send(self, version: int) -> None:
        """See WeightLink.send."""
        await self._source.save_adapter(self._folder)
        await self._each(version, (engine.pause("abort") for engine in self.engines))
        loads = (engine.load_adapter(self._folder, version=str(version)) for engine in self.engines)
        await self._each(version, loads)
        await self._each(version, (engine.resume() for engine in self.engines))

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
) -> WeightLink:
    """The link that `backend` names; `folder`: of adapters; `keep_cache`: of a process group."""
    if backend == "adapter":
        assert folder is not None
        return AdapterLink(source, engines, folder)
    if backend == "ipc":
        return CudaIpcLink(source, engines)
    return ProcessGroupLink(source, engines, backend, keep_cache=keep_cache)


def update_backend(*, gpus: int, share_gpu: bool) -> Backend:
    """`gpus` of an engine; NCCL refuses two processes of one group on the same GPU."""
    if not gpus:
        return "gloo"
    return "ipc" if share_gpu else "nccl"
