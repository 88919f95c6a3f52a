"""A checkpoint is there completely or not at all."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from swerl_trainer.checkpoints import MARKER, CheckpointError, CheckpointStore

from tests.full_disk import files_end_at


async def write(store: CheckpointStore, step: int) -> None:
    async with store.write(step, {"step": step, "cursor": {"epoch": 0, "offset": step * 8}}) as folder:
        (folder / "ranks").mkdir()
        (folder / "ranks" / "weights").write_bytes(bytes(10))


async def test_newest_complete_checkpoint_is_found_with_its_state(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "c", keep_last=5)
    assert store.newest() is None
    for step in (2, 10, 9):
        await write(store, step)
    newest = store.newest()
    assert newest is not None
    assert (newest.step, newest.state["cursor"]["offset"]) == (10, 80)
    assert (newest.folder / "ranks" / "weights").stat().st_size == 10


async def test_incomplete_checkpoint_is_ignored_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = CheckpointStore(tmp_path)
    await write(store, 1)
    await write(store, 2)
    (tmp_path / "step-0000002" / MARKER).unlink()
    with caplog.at_level(logging.WARNING):
        newest = store.newest()
    assert newest is not None and newest.step == 1
    assert "step-0000002" in caplog.text


async def test_failed_write_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    await write(store, 1)
    with pytest.raises(RuntimeError, match="rank 3"):
        async with store.write(2, {}):
            raise RuntimeError("rank 3 died")
    newest = store.newest()
    assert newest is not None and newest.step == 1
    await write(store, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-0000001", "step-0000003"]


async def test_full_disk_is_one_clear_error_and_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    await write(store, 1)
    with files_end_at(4), pytest.raises(CheckpointError, match=r"checkpoint of step 2 under .*: .*File too large"):
        await write(store, 2)
    newest = store.newest()
    assert newest is not None and newest.step == 1
    await write(store, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-0000001", "step-0000003"]


async def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_last=2)
    for step in range(1, 6):
        await write(store, step)
    assert [c.step for c in store.complete()] == [4, 5]
    assert len(list(tmp_path.iterdir())) == 2


async def test_step_written_again_replaces_the_old_one(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    await write(store, 4)
    async with store.write(4, {"attempt": 2}):
        pass
    newest = store.newest()
    assert newest is not None and newest.state == {"attempt": 2}
