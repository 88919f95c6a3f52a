"""One training rank that measures itself: `measured.py JOB RANK WORLD_SIZE`.

It reports the bytes of its weights, gradients and optimizer, and by how much the process's anonymous memory grew at
most in each phase.
"""

from __future__ import annotations

import ctypes
import gc
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from swerl_trainer.megatron.background_save import complete_together
from swerl_trainer.megatron.process_group import of_all_ranks
from swerl_trainer.megatron.trainer import MegatronTrainer

SAMPLE_SECONDS = 0.002


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def give_back() -> None:
    """Return freed memory to the system: what earlier phases used is not the next one's."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


class Peaks:
    """The most that this process grew above its size at the start, by phase."""

    def __init__(self) -> None:
        give_back()
        self.start = anonymous_bytes()
        self.bytes: dict[str, int] = {}

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        give_back()
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
    ports, place = iter(job["ports"]), {"rank": rank, "world_size": world_size, "address": "127.0.0.1"}
    warm = MegatronTrainer(job["warm_up"], **place, port=next(ports))
    warm.train_step(job["batch"])  # what a process takes at its first step, whatever it trains
    warm.close()
    del warm
    peaks = Peaks()
    with peaks.during("load"):
        trainer = MegatronTrainer(job["config"], **place, port=next(ports))
    with peaks.during("step"):
        for _ in range(2):
            trainer.train_step(job["batch"])
    tensors_held = tensors(trainer)
    with peaks.during("save"):
        trainer.begin_save(str(Path(job["out"]).with_name("checkpoint")))
        trainer.train_step(job["batch"])
        complete_together(trainer.saving)
    with peaks.during("update"):
        sends = send_weights(trainer, job["bucket"], [*ports][rank])
    if not sends:
        del peaks.bytes["update"]  # the plan is of a rank that does
    with peaks.during("switch"):
        export_weights(trainer, job["bucket"])
    reports = of_all_ranks({"held": tensors_held, "peaks": peaks.bytes})
    trainer.close()
    if rank == 0:
        torch.save(reports, job["out"])


def send_weights(trainer: MegatronTrainer, bucket: int, port: int) -> bool:
    """As to engines, which receive what is broadcast: the sender's group has no other member. Whether this rank has a
    part to send."""
    sender = trainer.sender
    part = sender.part(bucket, whole=False)
    for leader in of_all_ranks(part):
        for number in range(leader.shared if part.rank in leader.helpers else 0):
            sender.help(number)
    if part.buckets:
        sender.connect("127.0.0.1", port, world_size=1, group_name="alone", backend="gloo", timeout=60.0)
        sender.prepare(0)
        for number in range(len(part.buckets)):
            sender.send(number, "alone")
        sender.close("alone")
    return bool(part.buckets)


def export_weights(trainer: MegatronTrainer, bucket: int) -> None:
    """As `export` to an engine on the same GPU: it has a bucket until the next one is gathered. SGLang, which makes the
    handle, is not imported: that alone takes more memory than a bucket."""
    shared = None
    for number in range(len(trainer.sender.metadata(bucket))):
        shared = trainer.sender._gather(number)
    assert shared is not None


def tensors(trainer: MegatronTrainer) -> dict[str, int]:
    """Bytes of what stays between two steps."""
    buffers = [b for module in trainer.modules for b in (*module.buffers, *module.expert_parallel_buffers)]
    states = [s for wrapped in optimizers(trainer.optimizer) for s in wrapped.optimizer.state.values()]
    frozen = sum(p.nbytes for p in trainer.model.parameters() if not p.requires_grad)
    moments = sum(value.nbytes for state in states for value in state.values() if torch.is_tensor(value))
    return {
        "weights": sum(buffer.param_data.nbytes for buffer in buffers) + frozen,
        "gradients": sum(buffer.grad_data.nbytes for buffer in buffers),
        "optimizer": moments,
    }


def optimizers(optimizer: Any) -> list[Any]:
    return list(getattr(optimizer, "chained_optimizers", [optimizer]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
