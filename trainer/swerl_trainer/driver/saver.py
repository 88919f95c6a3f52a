"""The checkpoints of the running attempt, written beside its training.

Guarantees: training stops only while the ranks copy what is saved, and for the checkpoint before if that is not yet
written and mirrored; at most one is being written; one that cannot be written never looks complete, and its error is
raised by the next call; disk access is off the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swerl_trainer.checkpoints import CheckpointError, CheckpointStore, FileSum
from swerl_trainer.driver.policy_step import TrainingRanks
from swerl_trainer.driver.state import TrainingState
from swerl_trainer.events import SLOW_VOLUME, SLOW_VOLUME_SECONDS, event
from swerl_trainer.mirror import Mirror
from swerl_trainer.rollout.complete_groups import write_complete_groups
from swerl_trainer.rollout.group import GroupState

logger = logging.getLogger(__name__)


class CheckpointSaver:
    """Writes checkpoints to `store`, and copies them to `mirror`. `trainer_lock` is held while the ranks copy."""

    def __init__(self, store: CheckpointStore, trainer_lock: asyncio.Lock, mirror: Mirror | None = None) -> None:
        self.newest: str | None = None  # folder of the last checkpoint that this attempt completed
        self._store = store
        self._trainer_lock = trainer_lock
        self._mirror = mirror
        self._writing: asyncio.Task[None] | None = None

    async def save(self, ranks: TrainingRanks, state: TrainingState, complete: Sequence[GroupState] = ()) -> None:
        """Start a checkpoint of the present step, after the one before it is complete; `state` may change at once.

        `complete`: groups that are complete and not trained yet.
        """
        began = time.monotonic()
        await self.wait()
        folder, files = await asyncio.to_thread(self._begin, state.step, complete)
        async with self._trainer_lock:
            await ranks.begin_save(folder)
        stopped = time.monotonic() - began
        text = "checkpoint of step %d: training stopped %.2f s"
        if stopped > SLOW_VOLUME_SECONDS:
            logger.warning(text, state.step, stopped, extra=event(SLOW_VOLUME))
        else:
            logger.info(text, state.step, stopped)
        work = self._complete(ranks, folder, state.step, state.as_json(), files)
        self._writing = asyncio.create_task(work, name=f"checkpoint of step {state.step}")

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written."""
        if self._writing is not None and self._writing.done():
            writing, self._writing = self._writing, None
            writing.result()

    async def wait(self) -> None:
        """Return when no checkpoint is being written. Raises the error of one that could not be."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            self.check()

    def cancel(self) -> None:
        """Give up the checkpoint that is being written."""
        if self._writing is not None:
            self._writing.cancel()

    def _begin(self, step: int, complete: Sequence[GroupState]) -> tuple[Path, dict[str, FileSum]]:
        folder = self._store.begin(step)
        try:
            return folder, write_complete_groups(folder, complete)
        except OSError as error:
            raise CheckpointError(f"checkpoint of step {step}: its rollouts were not written: {error}") from error

    async def _complete(
        self, ranks: TrainingRanks, folder: Path, step: int, state: dict[str, Any], files: dict[str, FileSum]
    ) -> None:
        began = time.monotonic()
        files = {**await ranks.complete_save(), **files}
        checkpoint = await asyncio.to_thread(self._store.finish, folder, step, state, files)
        self.newest = str(checkpoint.folder)
        size = sum(each.bytes for each in files.values()) / 2**20
        logger.info("checkpoint of step %d: %.0f MiB in %.1f s", step, size, time.monotonic() - began)
        if self._mirror is not None:
            await self._mirror.copy(checkpoint.folder, keep_last=self._store.keep_last)
