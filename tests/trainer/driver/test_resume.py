"""Which checkpoint an attempt starts from."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from swerl_api import Resume
from swerl_trainer.checkpoints import Checkpoint, CheckpointStore, damage, sum_files
from swerl_trainer.driver.resume import starting_point
from swerl_trainer.job import JobError


async def find_damage(checkpoint: Checkpoint) -> list[str]:
    return damage(checkpoint.folder, checkpoint.files)


async def start(store: CheckpointStore, resume: Resume) -> int | None:
    checkpoint = await starting_point(store, resume, find_damage)
    return checkpoint and checkpoint.step


def write(store: CheckpointStore, step: int, **state: Any) -> None:
    folder = store.begin(step)
    (folder / "shard").write_bytes(bytes(100))
    store.finish(folder, step, state, sum_files(folder, ["shard"]))


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """Checkpoints of the steps 10, 20 and 30."""
    made = CheckpointStore(tmp_path, keep_last=5)
    for step in (10, 20, 30):
        write(made, step)
    return made


async def test_auto_starts_from_the_newest_and_never_from_the_model(store: CheckpointStore) -> None:
    assert (await start(store, "auto"), await start(store, "never")) == (30, None)


async def test_truncated_shard_is_named_and_the_checkpoint_before_is_used(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    (store.root / "step-0000030" / "shard").write_bytes(bytes(60))
    with caplog.at_level(logging.ERROR):
        assert await start(store, "auto") == 20
    assert "step-0000030 is damaged: shard has 60 bytes instead of 100" in caplog.text
    for step in (10, 20):
        (store.root / f"step-{step:07d}" / "shard").unlink()
    assert await start(store, "auto") is None


async def test_job_goes_back_to_a_step_once_and_then_continues(store: CheckpointStore) -> None:
    assert await start(store, 10) == 10
    names = sorted(path.name for path in store.root.iterdir())
    assert names == ["step-0000010", "step-0000020.abandoned", "step-0000030.abandoned"]
    write(store, 20, resume_step=10)
    assert await start(store, 10) == 20
    assert await start(store, "auto") == 20


async def test_step_without_sound_checkpoint_ends_the_job_and_names_the_others(store: CheckpointStore) -> None:
    with pytest.raises(JobError, match=r"resume is 15, but .* has no checkpoint of it; .* steps: 10, 20, 30; set"):
        await start(store, 15)
    (store.root / "step-0000020" / "shard").unlink()
    with pytest.raises(JobError, match=r"resume is 20, but .*step-0000020 is damaged: shard cannot be read"):
        await start(store, 20)
    assert (store.root / "step-0000030").is_dir()


async def test_checkpoint_written_after_a_damaged_one_is_kept(store: CheckpointStore) -> None:
    (store.root / "step-0000030" / "shard").unlink()
    assert await start(store, "auto") == 20
    store.keep_last = 1
    write(store, 25)
    assert await start(store, "auto") == 25
    assert (store.root / "step-0000030.abandoned").is_dir()


async def test_attempt_from_the_model_keeps_what_it_writes(store: CheckpointStore) -> None:
    store.keep_last = 2
    assert await start(store, "never") is None
    write(store, 5)
    assert [checkpoint.step for checkpoint in store.complete()] == [5, 10, 20, 30]
