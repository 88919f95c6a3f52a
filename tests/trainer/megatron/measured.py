"""One training rank that measures itself: `measured.py JOB RANK WORLD_SIZE`.

It reports the bytes of its weights, gradients and optimizer, and by how much the process's anonymous memory grew at
most in each phase.
"""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swerl_trainer.megatron.background_save import complete_together
from swerl_trainer.megatron.trainer import MegatronTrainer

SAMPLE_SECONDS = 0.002


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


class Peaks:
    """The most that this process grew above its size at the start, by phase."""

    def __init__(self) -> None:
        gc.collect()
        self.start = anonymous_bytes()
        self.bytes: dict[str, int] = {}

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        ended = threading.Event()
        sampled = [anonymous_bytes()]

        def sample() -> None:
            while not ended.wait(SAMPLE_SECONDS):
                sampled.append(anonymous_bytes())

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.bytes[phase] = max(*sampled, anonymous_bytes()) - self.start


def main(job_file: str, rank: int, world_size: int) -> None:
    job: dict[str, Any] = torch.load(job_file, weights_only=False)
    peaks = Peaks()
    with peaks.during("load"):
        trainer = MegatronTrainer(
            job["config"], rank=rank, world_size=world_size, address="127.0.0.1", port=job["port"]
        )
    with peaks.during("step"):
        for _ in range(2):
            trainer.train_step(job["batch"])
    tensors_held = tensors(trainer)
    with peaks.during("save"):
        trainer.begin_save(str(Path(job["out"]).with_name("checkpoint")))
        trainer.train_step(job["batch"])
        complete_together(trainer.saving)
    all_ranks: list[Any] = [None] * world_size
    dist.all_gather_object(all_ranks, {"held": tensors_held, "peaks": peaks.bytes})
    trainer.close()
    if rank == 0:
        torch.save(all_ranks, job["out"])


def tensors(trainer: MegatronTrainer) -> dict[str, int]:
    """Bytes of what stays between two steps."""
    buffers = [b for module in trainer.modules for b in (*module.buffers, *module.expert_parallel_buffers)]
    states = [s for wrapped in optimizers(trainer.optimizer) for s in wrapped.optimizer.state.values()]
    moments = sum(value.nbytes for state in states for value in state.values() if torch.is_tensor(value))
    return {
        "weights": sum(buffer.param_data.nbytes for buffer in buffers),
        "gradients": sum(buffer.grad_data.nbytes for buffer in buffers),
        "optimizer": moments,
    }


def optimizers(optimizer: Any) -> list[Any]:
    return list(getattr(optimizer, "chained_optimizers", [optimizer]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
