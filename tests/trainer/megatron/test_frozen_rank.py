"""Ranks that wait for a frozen process leave their stacks, whichever call they wait in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.ports import free_port

if TYPE_CHECKING:
    from .conftest import MakeConfig

CALLED = Path(__file__).with_name("called_rank.py")
SECONDS = 300.0  # for a process on a busy machine to import and load
TIMEOUT = 20  # of collectives; stacks are written after half of it


@contextmanager
def process(*command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen([sys.executable, "-W", "ignore", *map(str, command)], env=environ)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def wait_for(file: Path, text: str = "") -> None:
    deadline = time.monotonic() + SECONDS
    while not (file.exists() and text in file.read_text()):
        assert time.monotonic() < deadline, f"{file}: {file.read_text() if file.exists() else 'missing'}"
        time.sleep(0.1)


def write_job(folder: Path, config: Any, world_size: int, calls: list[tuple[Any, ...]]) -> Path:
    job = {"config": replace(config, logs=str(folder / "logs")), "world_size": world_size, "port": free_port()}
    torch.save(job | {"calls": calls}, folder / "job.pt")
    return folder / "job.pt"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("calls", "method", "function"),
    [
        ([], "begin", "join_process_group"),
        ([("sender.metadata", 2**20, {}), ("sender.export", 0, {})], "sender.export", "gather_shards"),
    ],
)
def test_rank_beside_a_frozen_one_writes_its_stacks(
    make_config: MakeConfig, tmp_path: Path, calls: list[tuple[Any, ...]], method: str, function: str
) -> None:
    config = make_config(tensor_parallel=2, collective_timeout_seconds=TIMEOUT)
    job = write_job(tmp_path, config, 2, calls)
    with ExitStack() as stack:
        _, frozen = (stack.enter_context(process(CALLED, job, str(rank))) for rank in range(2))
        for rank in range(2):
            wait_for(tmp_path / f"ready-{rank}")
        os.kill(frozen.pid, signal.SIGSTOP)
        (tmp_path / "go").touch()
        stacks = tmp_path / "logs" / "rank-0.stacks.txt"
        wait_for(stacks, f"in {function}\n")
        assert f"{method} has run for " in stacks.read_text()
        assert not (tmp_path / "logs" / "rank-1.stacks.txt").exists()


@pytest.mark.timeout(900)
def test_rank_that_waits_for_a_frozen_engine_writes_its_stacks(make_config: MakeConfig, tmp_path: Path) -> None:
    """An engine that is frozen before it joins, while the rank waits for it."""
    config, port = make_config(collective_timeout_seconds=TIMEOUT), free_port()
    member = {"world_size": 2, "group_name": "w", "backend": "gloo", "timeout": 60.0}
    job = write_job(tmp_path, config, 1, [("sender.connect", "127.0.0.1", port, member)])
    receiver = Path(__file__).with_name("receiver.py")
    with process(CALLED, job, "0"), process(receiver, f"tcp://127.0.0.1:{port}", tmp_path) as engine:
        wait_for(tmp_path / "ready")
        os.kill(engine.pid, signal.SIGSTOP)
        wait_for(tmp_path / "ready-0")
        (tmp_path / "go").touch()
        stacks = tmp_path / "logs" / "rank-0.stacks.txt"
        wait_for(stacks, "in _join_group\n")
        assert "sender.connect has run for " in stacks.read_text()
