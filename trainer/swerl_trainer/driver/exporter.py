"""The exports of a job: its weights in Hugging Face format, in a folder per step.

Guarantees: an export appears complete or not at all; the newest are kept; training stops while one is written, but not
while it is copied to the mirror; exports later than the present one are moved aside, as later checkpoints are.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from pathlib import Path

from swerl_api import ExportSpec
from swerl_api.names import checkpoint_name
from swerl_trainer.checkpoints import set_aside
from swerl_trainer.driver.policy_step import TrainingRanks
from swerl_trainer.mirror import Mirror

logger = logging.getLogger(__name__)


class WeightExporter:
    """Writes exports to `root` as `spec` says, and copies them to `mirror`; without `spec` it makes none.

    `trainer_lock` is held while the ranks write.
    """

    def __init__(
        self, root: Path, spec: ExportSpec | None, trainer_lock: asyncio.Lock, mirror: Mirror | None = None
    ) -> None:
        self._root = root
        self._mirror = mirror
        self._spec = spec
        self._trainer_lock = trainer_lock
        self._copying: asyncio.Task[None] | None = None

    async def export_if_due(self, ranks: TrainingRanks, step: int, *, last: bool) -> None:
        """Export the weights of `step` if it is one of the spec's, or the last."""
        spec = self._spec
        if spec is None or not (last or (spec.every and step % spec.every == 0)):
            return
        began, folder = time.monotonic(), self._root / checkpoint_name(step)
        async with self._trainer_lock:
            await ranks.save_hf(folder)
        logger.info("weights of step %d exported to %s in %.1f s", step, folder, time.monotonic() - began)
        await self.wait()
        await asyncio.to_thread(self._prune, folder.name, spec.keep_last)
        if self._mirror is not None:
            copy = self._mirror.copy(folder, keep_last=spec.keep_last)
            self._copying = asyncio.create_task(copy, name=f"copy of {folder.name}")

    async def export_if_missing(self, ranks: TrainingRanks, step: int) -> None:
        """Export the weights of the last step, unless this attempt or an earlier one has."""
        if not (self._root / checkpoint_name(step)).is_dir():
            await self.export_if_due(ranks, step, last=True)

    async def wait(self) -> None:
        """Return when no export is being copied to the mirror."""
        if self._copying is not None:
            await self._copying
            self._copying = None

    def cancel(self) -> None:
        """Give up the copy to the mirror."""
        if self._copying is not None:
            self._copying.cancel()

    def _prune(self, newest: str, keep_last: int) -> None:
        for unfinished in self._root.glob(".step-*"):
            shutil.rmtree(unfinished)
        exports = sorted(path for path in self._root.glob("step-*") if not path.suffix)
        for old in [path for path in exports if path.name <= newest][:-keep_last]:
            shutil.rmtree(old)
        for later in [path for path in exports if path.name > newest]:
            set_aside(later)
