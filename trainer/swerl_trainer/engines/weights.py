"""Giving engines the trainer's weights over a process group (gloo on CPU, NCCL between GPUs).

Guarantees: an engine answers with a version only when all of that version's weights are loaded; requests that were
running are retracted and recomputed with the new weights, so no cache of old weights survives; a failed transfer names
the engines that must be replaced, and leaves the others waiting for the next full transfer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.errors import EngineError
from swerl_trainer.megatron.weight_sender import BucketMetadata

BUCKET_BYTES = 512 * 2**20  # flat buffer per broadcast, on both sides


class WeightSource(Protocol):
    """The training side; `TrainGroup` is one."""

    async def weight_endpoint(self) -> tuple[str, int]: ...

    async def connect_engines(
        self, address: str, port: int, *, world_size: int, group_name: str, backend: str, timeout: float = 300.0
    ) -> None: ...

    async def weight_buckets(self, max_bytes: int = BUCKET_BYTES) -> list[BucketMetadata]: ...

    async def broadcast_bucket(self, number: int, *, group_name: str) -> None: ...

    async def disconnect_engines(self, group_name: str) -> None: ...


class WeightTransferFailed(EngineError):
    """Some engines did not get the weights; `engines` must be replaced before they serve again."""

    def __init__(self, version: int, engines: Sequence[EngineClient], reason: BaseException) -> None:
        super().__init__(f"weights of version {version} did not reach {[e.url for e in engines]}: {reason}")
        self.engines = tuple(engines)


class WeightLink:
    """The update group between the trainer and a set of engines; opened once, used for every version."""

    _numbers = itertools.count()

    def __init__(self, source: WeightSource, engines: Sequence[EngineClient], backend: str) -> None:
        self.engines = tuple(engines)
        self._source = source
        self._backend = backend
        self._name = ""

    async def send(self, version: int) -> None:
        """Load the trainer's present weights into all engines as `version`.

        Raises WeightTransferFailed; the link is closed then.
        """
        try:
            await self._each(version, (engine.pause("retract") for engine in self.engines))
            await self._open(version)
            await self._each(version, (engine.begin_update() for engine in self.engines))
            await self._broadcast(version)
            await self._each(version, (engine.end_update() for engine in self.engines))
            await self._each(version, (engine.resume() for engine in self.engines))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Dissolve the group on both sides; engines that are gone are passed over."""
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

    async def _broadcast(self, version: int) -> None:
        buckets = await self._source.weight_buckets(BUCKET_BYTES)
        for number, bucket in enumerate(buckets):
            last = number == len(buckets) - 1
            loads = (
                engine.receive_bucket(bucket, group=self._name, version=str(version), flush=last)
                for engine in self.engines
            )
            await self._each(version, loads, self._source.broadcast_bucket(number, group_name=self._name))

    async def _each(
        self, version: int, calls: Iterable[Awaitable[None]], trainer: Awaitable[None] | None = None
    ) -> None:
        """Run one call per engine together, with the trainer's part of it; all end before the first failure counts."""
        parts = [*calls, *([trainer] if trainer is not None else [])]
        results = await asyncio.gather(*parts, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if not failures:
            return
        broken = [e for e, result in zip(self.engines, results, strict=False) if isinstance(result, BaseException)]
        if broken:
            raise WeightTransferFailed(version, broken, failures[0])
        raise failures[0]


def update_backend(*, gpus: int, share_gpu: bool) -> str:
    """NCCL refuses two processes of one group on the same GPU, so shared GPUs and CPUs use gloo."""
    return "nccl" if gpus and not share_gpu else "gloo"
