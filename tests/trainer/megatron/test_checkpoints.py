"""A checkpoint is there completely or not at all, and what changed in it since is found."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from swerl_trainer.checkpoints import MARKER, CheckpointError, CheckpointStore, damage, sum_files

from tests.full_disk import files_end_at


def write(store: CheckpointStore, step: int, size: int = 10) -> None:
    folder = store.begin(step)
    (folder / "weights").write_bytes(bytes(size))
    state = {"step": step, "cursor": {"epoch": 0, "offset": step * 8}}
    store.finish(folder, step, state, sum_files(folder, ["weights"]))


def steps(store: CheckpointStore) -> list[int]:
    return [checkpoint.step for checkpoint in store.complete()]


def test_complete_checkpoints_are_found_with_their_state(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "c", keep_last=5)
    assert store.complete() == []
    for step in (2, 10, 9):
        write(store, step)
    assert steps(store) == [2, 9, 10]
    newest = store.complete()[-1]
    assert newest.state["cursor"]["offset"] == 80
    assert newest.files["weights"].bytes == (newest.folder / "weights").stat().st_size == 10


def test_incomplete_checkpoint_is_ignored_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = CheckpointStore(tmp_path)
    write(store, 1)
    write(store, 2)
    (tmp_path / "step-0000002" / MARKER).unlink()
    with caplog.at_level(logging.WARNING):
        assert steps(store) == [1]
    assert "step-0000002" in caplog.text


def test_begun_checkpoint_is_none_and_the_next_removes_it(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    write(store, 1)
    (store.begin(2) / "weights").write_bytes(b"half")
    assert steps(store) == [1]
    write(store, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-0000001", "step-0000003"]


def test_full_disk_is_one_clear_error_and_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    write(store, 1)
    folder = store.begin(2)
    with files_end_at(4), pytest.raises(CheckpointError, match=r"checkpoint of step 2 under .*: .*File too large"):
        store.finish(folder, 2, {"step": 2}, {})
    assert steps(store) == [1]


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_last=2)
    for step in range(1, 6):
        write(store, step)
    assert steps(store) == [4, 5]
    assert len(list(tmp_path.iterdir())) == 2


def test_step_written_again_replaces_the_old_one(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    write(store, 4)
    store.finish(store.begin(4), 4, {"attempt": 2}, {})
    assert [checkpoint.state for checkpoint in store.complete()] == [{"attempt": 2}]


def test_each_damaged_file_is_found_with_what_is_wrong(tmp_path: Path) -> None:
    for name in ("whole", "short", "changed", "gone"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
    files = sum_files(tmp_path, ["whole", "short", "changed", "gone"])
    assert damage(tmp_path, files) == []
    (tmp_path / "short").write_bytes(b"short" * 999)
    (tmp_path / "changed").write_bytes(b"changed" * 999 + b"chanGed")
    (tmp_path / "gone").unlink()
    assert damage(tmp_path, files) == [
        "short has 4995 bytes instead of 5000",
        "changed has other content than was written",
        "gone cannot be read: No such file or directory",
    ]
