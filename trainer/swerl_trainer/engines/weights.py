"""Sending the trainer's weights to engines: the order of the calls, whatever the way.

Guarantees: an engine reports a version only when all of that version's weights are loaded; requests that were
running are retracted and recomputed with the new weights, so no cache of old weights survives, unless `keep_cache` asks
for it; no engine resumes before a sample of its weights was compared with the trainer's; a failed transfer names the
engines that must be replaced, and leaves the others waiting for the next full transfer; an engine that refuses a call
because another one of its group is lost is kept.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from swerl_trainer.engines.client import EngineClient, PauseMode
from swerl_trainer.engines.errors import EngineLost, EnginePoolError
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.location import Location
from swerl_trainer.weight_bucket import WeightBucket, WeightPart, WeightSample

logger = logging.getLogger(__name__)

T = TypeVar("T")
MAX_NAMED = 3  # parameters that an error names
BUCKET_BYTES = 512 * 2**20  # flat buffer per transfer, on both sides
LOST_GRACE = 3.0  # seconds that the calls to other engines go on after one is lost, for which they may wait
TRAINER_SECONDS = 300.0  # for the training ranks to end their part of a transfer that has failed


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
        timeout: float,
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

    async def weight_sample(self, version: int, *, engine_ranks: int, expert_ranks: int = 1) -> WeightSample: ...


class WeightTransferFailed(EnginePoolError):
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
        self._trainer_calls: set[asyncio.Task[Any]] = set()

    async def send(self, version: int) -> None:
        """Load the trainer's present weights into all engines as `version`.

        Raises WeightTransferFailed, also when an engine then holds others. End its engines then, for the other members
        of a group wait for them, and `abandon` the link.
        """
        try:
            mode: PauseMode = "in_place" if self.keep_cache else "retract"
            await self._each(version, (engine.pause(mode) for engine in self.engines))
            await self._open(version)
            await self._load(version)
            await self._compare(version)
            await self._each(version, (engine.resume() for engine in self.engines))
        except WeightTransferFailed:
            raise
        except BaseException:
            await self.abandon()
            raise

    async def abandon(self) -> None:
        """Close the link after a failed transfer; engines that are left take part in the next one. Raises
        EnginePoolError when the training ranks do not return from it."""
        try:
            async with asyncio.timeout(TRAINER_SECONDS):
                await asyncio.gather(*self._trainer_calls, return_exceptions=True)
        except TimeoutError as error:
            raise EnginePoolError(f"training ranks still send weights {TRAINER_SECONDS:g} s after a failure") from error
        await self.close()
        # an engine with an open update refuses the next one
        await asyncio.gather(*(engine.end_update() for engine in self.engines), return_exceptions=True)

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
            raise WeightTransferFailed(
                version, wrong, EnginePoolError(f"the engine's {names} differs from the trainer's")
            )

    async def _sums(self, version: int) -> tuple[WeightSample, list[list[dict[str, str]]]]:
        """A sample of the trainer's weights, and the same of every engine."""
        if not self.engines:
            return WeightSample((), ()), []
        ranks, expert_ranks = self.engines[0].ranks, self._check.expert_ranks
        sample = await self._source.weight_sample(version, engine_ranks=ranks, expert_ranks=expert_ranks)
        if not sample.sums:
            return sample, [[] for _ in self.engines]
        return sample, await self._each(version, (engine.weight_sums(sample.others) for engine in self.engines))

    @abstractmethod
    async def close(self) -> None:
        """Release the resources on both sides; ignores dead engines."""

    @abstractmethod
    async def _open(self, version: int) -> None: ...

    @abstractmethod
    async def _transfer(self, version: int) -> None: ...

    def _trainer_call(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The trainer's part of a transfer, for which `abandon` waits."""
        task = asyncio.create_task(work)
        self._trainer_calls.add(task)
        task.add_done_callback(self._trainer_ended)
        return task

    def _trainer_ended(self, task: asyncio.Task[Any]) -> None:
        self._trainer_calls.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.info("the trainer's part of a weight update failed: %s", error)

    async def _each(
        self, version: int, calls: Iterable[Awaitable[T]], trainer: asyncio.Task[T] | None = None
    ) -> list[T]:
        """Results of one call per engine, concurrently with the trainer's part. A lost engine fails them all, for the
        others may wait for it; after a refusal, all end before it is raised."""
        tasks = [asyncio.ensure_future(call) for call in calls]
        try:
            await _until_lost([*tasks, *([trainer] if trainer else [])])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        errors = [None if task.cancelled() else task.exception() for task in tasks]
        lost = [engine for engine, error in zip(self.engines, errors, strict=False) if isinstance(error, EngineLost)]
        failed = lost or [engine for engine, error in zip(self.engines, errors, strict=False) if error]
        if failed:
            reason = next(error for error in errors if isinstance(error, EngineLost if lost else BaseException))
            raise WeightTransferFailed(version, failed, reason)
        return [await task for task in ([*tasks, trainer] if trainer else tasks)]


async def _until_lost(tasks: Sequence[asyncio.Future[T]]) -> None:
    """Return when all have ended, or LOST_GRACE after an engine is lost."""
    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if any(not task.cancelled() and isinstance(task.exception(), EngineLost) for task in done):
            if pending:
                await asyncio.wait(pending, timeout=LOST_GRACE)
            return
