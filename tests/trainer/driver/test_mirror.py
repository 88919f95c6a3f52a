"""Copies of checkpoints in object storage, here fsspec's in memory."""

from __future__ import annotations

import uuid
from pathlib import Path

import fsspec
import pytest
from swerl_trainer.checkpoints import MARKER, Checkpoint, CheckpointStore, damage, sum_files
from swerl_trainer.driver.errors import DriverError
from swerl_trainer.driver.resume import fetch_missing
from swerl_trainer.job import JobError
from swerl_trainer.mirror import Mirror

from tests.ports import free_port


def write(store: CheckpointStore, step: int) -> Checkpoint:
    folder = store.begin(step)
    (folder / "shard").write_bytes(bytes([step]) * 1000)
    return store.finish(folder, step, {"step": step}, sum_files(folder, ["shard"]))


@pytest.fixture
def mirror() -> Mirror:
    return Mirror(f"memory://{uuid.uuid4()}/checkpoints")


def test_lost_volume_is_filled_from_the_newest_copy(mirror: Mirror, tmp_path: Path) -> None:
    store, other = (CheckpointStore(tmp_path / name, keep_last=5) for name in "ab")
    for step in (8, 9, 10):
        mirror.push(write(store, step).folder, keep_last=2)
    assert mirror.names() == ["step-0000009", "step-0000010"]
    fetch_missing(mirror, other, "auto")
    fetch_missing(mirror, other, 9)
    assert [one.step for one in other.complete()] == [9, 10]
    assert all(damage(one.folder, one.files) == [] for one in other.complete())
    write(other, 11)
    fetch_missing(mirror, other, "auto")  # the volume has a newer one
    assert [one.step for one in other.complete()] == [9, 10, 11]
    fetch_missing(mirror, store, "never")
    mirror.push(write(other, 9).folder, keep_last=2)  # the job went back behind step 10
    assert mirror.names() == ["step-0000009"]


def test_copy_replaces_an_incomplete_checkpoint_and_an_interrupted_fetch(mirror: Mirror, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    folder = write(store, 8).folder
    mirror.push(folder, keep_last=2)
    (folder / MARKER).unlink()
    (tmp_path / ".fetching-step-0000004").mkdir()
    fetch_missing(mirror, store, "auto")
    assert [one.step for one in store.complete()] == [8]
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000008"]


def test_abandoned_checkpoint_is_not_fetched(mirror: Mirror, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for step in (8, 9):
        mirror.push(write(store, step).folder, keep_last=2)
    store.abandon(store.complete()[1:])
    fetch_missing(mirror, store, "auto")
    assert [one.step for one in store.complete()] == [8]


def test_lost_volume_gets_what_the_job_wrote_after_it_went_back(mirror: Mirror, tmp_path: Path) -> None:
    store, other = (CheckpointStore(tmp_path / name) for name in "ab")
    for step in (8, 9, 10):
        mirror.push(write(store, step).folder, keep_last=2)
    fetch_missing(mirror, other, 8)  # whose copy is pruned
    assert [one.step for one in other.complete()] == [10]


def test_copy_without_its_marker_is_none(mirror: Mirror, tmp_path: Path) -> None:
    mirror.push(write(CheckpointStore(tmp_path), 1).folder, keep_last=2)
    system, root = fsspec.url_to_fs(mirror.url)
    system.rm_file(f"{root}/step-0000001/{MARKER}")
    assert mirror.names() == []


def test_outage_names_the_mirror_and_what_to_do(tmp_path: Path) -> None:
    mirror = Mirror(f"http://127.0.0.1:{free_port()}/checkpoints")  # where nothing listens
    with pytest.raises(DriverError, match=r"checkpoint.mirror http://.* cannot be fetched from: .*; the next attempt"):
        fetch_missing(mirror, CheckpointStore(tmp_path), "auto")
    fetch_missing(mirror, CheckpointStore(tmp_path), "never")


@pytest.mark.parametrize("protocol", ["s3", "gs"])
def test_image_has_the_packages_of_object_storage(protocol: str) -> None:
    assert protocol in fsspec.get_filesystem_class(protocol).protocol


def test_missing_package_is_named_with_what_to_install() -> None:
    with pytest.raises(
        JobError, match=r"checkpoint.mirror nowhere://b/c: .*; install the fsspec package of nowhere://"
    ):
        Mirror("nowhere://b/c")
