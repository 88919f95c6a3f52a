"""How long the parts of a step take, and how much GPU memory each needs.

Guarantees: a part that runs several times adds up; figures are of the slowest and the fullest rank; on a GPU the time
of a part ends when its kernels have finished.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
import torch.distributed as dist
from swerl_trainer.megatron.device import Device

GIB = 2**30

RankPhase = Literal["load", "logprob", "forward_backward", "optimizer", "save", "update", "switch"]
PHASES: tuple[RankPhase, ...] = get_args(RankPhase)


class Phases:
    """Measures the phases of one rank between two calls of `take`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._memory: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def during(self, phase: RankPhase) -> Iterator[None]:
        """Count what runs inside as `phase`."""
        if self._device.cuda:
            torch.cuda.reset_peak_memory_stats()
        began, gib = time.monotonic(), 0.0
        yield
        if self._device.cuda:
            torch.cuda.synchronize()
            gib = torch.cuda.max_memory_allocated() / GIB
        self.add(phase, time.monotonic() - began, gib)

    def add(self, phase: RankPhase, seconds: float, gib: float) -> None:
        """Count `seconds` of `phase`, in which at most `gib` of the GPU were allocated; 0 without a GPU."""
        self._seconds[phase] += seconds
        self._memory[phase] = max(self._memory[phase], gib)

    def take(self) -> dict[str, float]:
        """`<phase>_seconds`, and `<phase>_gpu_gib` on a GPU, of what ran since the last call; a collective."""
        measured = [self._seconds[phase] for phase in PHASES] + [self._memory[phase] for phase in PHASES]
        largest = torch.tensor(measured, dtype=torch.float64, device=self._device.torch)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        names = [f"{phase}_seconds" for phase in PHASES] + [f"{phase}_gpu_gib" for phase in PHASES]
        self._seconds.clear()
        self._memory.clear()
        return {name: value for name, value in zip(names, largest.tolist(), strict=True) if value > 0}
