"""A checkpoint is written while training continues, and a write that fails leaves none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from swerl_trainer.checkpoints import CheckpointStore, FileSum, sum_files
from swerl_trainer.driver.saver import CheckpointSaver
from swerl_trainer.driver.state import TrainingState


class Ranks:
    """Ranks that write their file when `may_write` is set, or fail with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_write = asyncio.Event()
        self.error = error
        self.folder = Path()

    async def begin_save(self, folder: Path) -> None:
        self.folder = folder

    async def complete_save(self) -> dict[str, FileSum]:
        await self.may_write.wait()
        (self.folder / "shard").write_bytes(bytes(10))
        if self.error is not None:
            raise self.error
        return sum_files(self.folder, ["shard"])


def saver(store: CheckpointStore) -> CheckpointSaver:
    return CheckpointSaver(store, asyncio.Lock())


async def test_training_continues_while_the_state_of_the_call_is_written(tmp_path: Path) -> None:
    store, ranks, state = CheckpointStore(tmp_path), Ranks(), TrainingState(step=3, position=7)
    writer: Any = saver(store)
    await writer.save(ranks, state)
    state.step, state.position = 4, 9
    writer.check()
    assert store.complete() == [] and writer.newest is None
    second = asyncio.create_task(writer.save(ranks, state))
    await asyncio.sleep(0.05)
    assert not second.done()  # one checkpoint is written at a time
    ranks.may_write.set()
    await second
    await writer.wait()
    assert [(checkpoint.step, checkpoint.state["position"]) for checkpoint in store.complete()] == [(3, 7), (4, 9)]
    assert writer.newest == str(tmp_path / "step-0000004")


async def test_failed_write_is_raised_by_the_next_call_and_leaves_no_checkpoint(tmp_path: Path) -> None:
    store, ranks = CheckpointStore(tmp_path), Ranks(OSError(28, "No space left on device"))
    writer: Any = saver(store)
    ranks.may_write.set()
    await writer.save(ranks, TrainingState(step=3))
    await asyncio.sleep(0.2)
    with pytest.raises(OSError, match="No space left"):
        writer.check()
    writer.check()  # once
    assert store.complete() == [] and writer.newest is None
    ranks.error = None
    await writer.save(ranks, TrainingState(step=4))
    await writer.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000004"]
