"""A member of an update group that takes no more: the rank that sends comes back from its broadcast."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from swerl_trainer.megatron.errors import WeightTransferError
from swerl_trainer.megatron.trainer import MegatronTrainer

from tests.ports import free_port

if TYPE_CHECKING:
    from .conftest import MakeConfig, Start

RECEIVER = Path(__file__).with_name("receiver.py")
LIMIT = 5.0  # seconds of a bucket
BUCKETS = 4000  # more than the buffers of a connection hold


def connected(trainer: MegatronTrainer, folder: Path, buckets: int) -> subprocess.Popen[bytes]:
    """A process that has joined the group and receives so many buckets, as SGLang does."""
    part = trainer.sender.part(60_000)
    torch.save([(b.names, b.dtypes, b.shapes) for b in part.buckets[:1] * buckets], folder / "buckets.pt")
    port = free_port()
    process = subprocess.Popen([sys.executable, "-W", "ignore", str(RECEIVER), f"tcp://127.0.0.1:{port}", str(folder)])
    while not (folder / "ready").exists():
        assert process.poll() is None
        time.sleep(0.1)
    (folder / "ready").unlink()
    trainer.sender.connect("127.0.0.1", port, world_size=2, group_name="w", backend="gloo", timeout=LIMIT)
    return process


def test_rank_comes_back_from_a_member_that_is_frozen(make_config: MakeConfig, start: Start, tmp_path: Path) -> None:
    trainer = start(make_config())
    process = connected(trainer, tmp_path, BUCKETS)
    try:
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(WeightTransferError, match="did not reach every engine of w"):
            for _ in range(BUCKETS):
                trainer.sender.prepare(0)
                began = time.monotonic()
                trainer.sender.send(0, "w")
        assert time.monotonic() - began < LIMIT + 5
    finally:
        process.kill()
        process.wait()
    again = connected(trainer, tmp_path, 1)
    trainer.sender.prepare(0)
    trainer.sender.send(0, "w")
    assert again.wait(60) == 0
    trainer.sender.close("w")
