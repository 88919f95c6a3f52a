"""Copies of checkpoints in a bucket: s3fs, as a job uses it, against a server of the S3 protocol on this machine."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from swerl_trainer.checkpoints import STATE, Checkpoint, CheckpointStore, damage, sum_files
from swerl_trainer.driver.resume import fetched_starting_point
from swerl_trainer.mirror import Mirror

from tests.environments import environment_of
from tests.ports import free_port

SHARDS = ["rank-0/shard", "rank-1/shard"]
BLOCK = 6 * 2**20  # bytes; s3fs sends larger files in parts
START_SECONDS = 60.0


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an empty bucket, which jobs reach as any other: by the variables of AWS's clients."""
    python = environment_of("s3")
    url = f"http://127.0.0.1:{free_port()}"
    with (
        (tmp_path_factory.mktemp("s3") / "log").open("wb") as log,
        pytest.MonkeyPatch.context() as changes,
        subprocess.Popen(
            [python.with_name("moto_server"), "-H", "127.0.0.1", "-p", url.rpartition(":")[2]],
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            _wait_for(url, server)
            packages = next(python.parents[1].glob("lib/python3*/site-packages"))
            changes.setattr(sys, "path", [*sys.path, str(packages)])
            for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret"), ("ENDPOINT_URL", url)):
                changes.setenv(f"AWS_{name}", value)
            fsspec.filesystem("s3").mkdir("runs")
            yield "s3://runs"
        finally:
            server.kill()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert server.poll() is None and time.monotonic() < deadline, f"no S3 server at {url}"
            time.sleep(0.1)


def write(store: CheckpointStore, step: int) -> Path:
    folder = store.begin(step)
    for number, name in enumerate(SHARDS):
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(bytes([step, number]) * BLOCK)
    return store.finish(folder, step, {"step": step}, sum_files(folder, SHARDS)).folder


async def find_damage(checkpoint: Checkpoint) -> list[str]:
    return damage(checkpoint.folder, checkpoint.files)


async def test_lost_volume_continues_from_the_bucket_without_its_corrupt_shards(
    bucket: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mirror, store = Mirror(f"{bucket}/{uuid.uuid4()}"), CheckpointStore(tmp_path / "written")
    for step in (7, 8, 9):
        mirror.push(write(store, step), keep_last=2)
    assert mirror.names() == ["step-0000008", "step-0000009"]

    sound = await fetched_starting_point(CheckpointStore(tmp_path / "other"), mirror, "auto", find_damage)
    assert sound is not None and sound.state == {"step": 9}
    assert (sound.folder / SHARDS[1]).read_bytes() == bytes([9, 1]) * BLOCK

    system, root = fsspec.url_to_fs(mirror.url)
    system.pipe_file(f"{root}/step-0000009/{SHARDS[1]}", bytes([9, 2]) * BLOCK)
    with caplog.at_level(logging.ERROR):
        before = await fetched_starting_point(CheckpointStore(tmp_path / "empty"), mirror, "auto", find_damage)
    assert before is not None and before.step == 8
    assert await find_damage(before) == []
    assert "step-0000009 is damaged: rank-1/shard has other content than was written" in caplog.text

    system.pipe_file(f"{root}/step-0000008/{STATE}", b"{")
    nothing = await fetched_starting_point(CheckpointStore(tmp_path / "none"), mirror, "auto", find_damage)
    assert nothing is None
