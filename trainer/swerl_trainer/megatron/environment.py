"""Environment variables and CPU threads of a training rank's process."""

from __future__ import annotations

import math
import os
from pathlib import Path

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # "<quota> <period>" in microseconds, or "max <period>"

# Without them every activation is mapped and unmapped by the kernel, and idle OpenMP threads spin against the
# sandboxes' CPUs: a step of a small model takes several times as long.
CPU: dict[str, str] = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TOP_PAD_": str(64 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(4 * 2**30),
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
}


def cuda(shares_gpu: bool) -> dict[str, str]:
    """Environment of a rank with a GPU.

    A rank that shares tensors with an engine uses no expandable segments: their CUDA IPC handles need `pidfd_getfd`.
    """
    order = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}  # Megatron orders communication before computation by it
    return order if shares_gpu else order | {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def cpu_process_environment() -> dict[str, str]:
    """Environment of a process that computes with Megatron beside the ranks, on the CPU alone."""
    return {**os.environ, **CPU, "CUDA_VISIBLE_DEVICES": ""}


def cpu_threads(ranks_on_node: int, quota: Path = CPU_QUOTA) -> int:
    """Threads of one of `ranks_on_node` ranks: its part of the container's CPUs, at least one."""
    cpus = float(len(os.sched_getaffinity(0)))
    try:
        allowed, period = quota.read_text().split()
        if allowed != "max":
            cpus = min(cpus, int(allowed) / int(period))
    except (OSError, ValueError):
        pass  # no limit
    return max(1, math.floor(cpus / ranks_on_node))
