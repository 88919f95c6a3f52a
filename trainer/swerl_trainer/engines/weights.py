"""Sending the trainer's weights to engines: the order of the calls, whatever the way.

Guarantees: an engine reports a version only when all of that version's weights are loaded; requests that were
running are retracted and recomputed with the new weights, so no cache of old weights survives, unless `keep_cache` asks
for it; no engine resumes before a sample of its weights was compared with the trainer's; a failed transfer names the
engines that must be replaced, and leaves the others waiting for the next full transfer.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from swerl_trainer.engines.client import EngineClient, PauseMode
from swerl_trainer.engines.errors import EngineError
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.location import Location
from swerl_trainer.weight_bucket import WeightBucket, WeightPart, WeightSample

logger = logging.getLogger(__name__)

T = TypeVar("T")
MAX_NAMED = 3  # parameters that an error names
BUCKET_BYTES = 512 * 2**20  # flat buffer per transfer, on both sides


class WeightSource(Protocol):
    """The training side, see `TrainGroup`."""

    async def weight_parts(self, max_bytes: int = BUCKET_BYTES, *, whole: bool = True) -> list[WeightPart]: ...

    async def weight_endpoint(self, rank: int = 0) -> tuple[str, int]: ...

    async def connect_engines(
        self,
        rank: int,
        address: str,
        port: int,
        *,
        world_size: int,
        group_name: str,
        backend: str,
        timeout: float = 300.0,
    ) -> None: ...

    async def prepare_bucket(self, part: WeightPart) -> None: ...

    async def send_bucket(self, part: WeightPart, number: int, *, group_name: str) -> None: ...

    async def disconnect_engines(self, rank: int, group_name: str) -> None: ...

    async def locations(self) -> list[Location]: ...

    async def weight_buckets(self, max_bytes: int = BUCKET_BYTES) -> list[WeightBucket]: ...

    async def export_bucket(self, number: int) -> list[str]: ...

    async def release_bucket(self) -> None: ...

    async def save_hf(self, folder: Path) -> None: ...

    async def save_adapter(self, folder: Path) -> None: ...

    async def weight_sample(self, version: int, *, engine_ranks: int) -> WeightSample: ...


class WeightTransferFailed(EngineError):
    """Some engines did not receive the weights; `engines` must be replaced before they serve again."""

    def __init__(self, version: int, engines: Sequence[EngineClient], reason: BaseException) -> None:
        super().__init__(f"weights of version {version} did not reach {[e.url for e in engines]}: {reason}")
        self.engines = tuple(engines)


class WeightLink(ABC):
    """The connection from the trainer to a set of engines; opened once, used for every version."""

    keep_cache = False  # requests that run go on with the keys and values of the weights before

    def __init__(self, source: WeightSource, engines: Sequence[EngineClient], check: WeightCheck | None = None) -> None:
        """`check`: of all links of a job; by default this one has its own."""
        self.engines = tuple(engines)
        self._source = source
        self._check = check or WeightCheck()

    async def send(self, version: int) -> None:
        """Load the trainer's present weights into all engines as `version`.

        Raises WeightTransferFailed, also when an engine then holds others; the link is closed then.
        """
        try:
            mode: PauseMode = "in_place" if self.keep_cache else "retract"
            await self._each(version, (engine.pause(mode) for engine in self.engines))
            await self._open(version)
            await self._load(version)
            await self._compare(version)
            await self._each(version, (engine.resume() for engine in self.engines))
        except BaseException as error:
            await self.close()
            failed = error.engines if isinstance(error, WeightTransferFailed) else ()
            await self._end_updates([engine for engine in self.engines if engine not in failed])
            raise

    async def _load(self, version: int) -> None:
        await self._each(version, (engine.begin_update() for engine in self.engines))
        await self._transfer(version)
        await self._each(version, (engine.end_update() for engine in self.engines))

    async def adopt(self, version: int) -> bool:
        """Call the weights with which the engines started `version`, if they are the trainer's; whether they are."""
        try:
            sample, held = await self._sums(version)
            if not sample.sums or not self._check.equal(sample, held):
                return False
            await self._each(version, (engine.name_version(str(version)) for engine in self.engines))
        except WeightTransferFailed as error:
            logger.warning("%s", error)
            return False
        return True

    async def _compare(self, version: int) -> None:
        """Raises WeightTransferFailed with the engines that hold other weights than the trainer."""
        sample, held = await self._sums(version)
        differing = self._check.wrong(sample, held)
        wrong = [engine for engine, names in zip(self.engines, differing, strict=True) if names]
        if wrong:
            names = ", ".join(next(filter(None, differing))[:MAX_NAMED])
            raise WeightTransferFailed(version, wrong, EngineError(f"the engine's {names} differs from the trainer's"))

    async def _sums(self, version: int) -> tuple[WeightSample, list[list[dict[str, str]]]]:
        """A sample of the trainer's weights, and the same of every engine."""
        if not self.engines:
            return WeightSample((), ()), []
        sample = await self._source.weight_sample(version, engine_ranks=self.engines[0].ranks)
        if not sample.sums:
            return sample, [[] for _ in self.engines]
        return sample, await self._each(version, (engine.weight_sums(sample.others) for engine in self.engines))

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

    async def _each(self, version: int, calls: Iterable[Awaitable[T]], trainer: Awaitable[T] | None = None) -> list[T]:
        """Results of one call per engine, concurrently with the trainer's part; all end before a failure is raised."""
        concurrent = [*calls, *([trainer] if trainer is not None else [])]
        results = await asyncio.gather(*concurrent, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if not failures:
            return [result for result in results if not isinstance(result, BaseException)]
        failed = [e for e, result in zip(self.engines, results, strict=False) if isinstance(result, BaseException)]
        if failed:
            raise WeightTransferFailed(version, failed, failures[0])
        raise failures[0]
