"""A profiler trace of one training step.

Guarantee: a trace that cannot be written is logged and never stops training.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from swerl_trainer.megatron.device import Device
from torch.profiler import ProfilerActivity, profile

logger = logging.getLogger(__name__)


@contextmanager
def traced(folder: str | None, rank: int, device: Device) -> Iterator[None]:
    """Write a trace of what runs inside to `folder`/rank-<rank>.json.gz; without a folder do nothing."""
    if folder is None:
        yield
        return
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.cuda else [])]
    with profile(activities=activities) as profiler:
        yield
        if device.cuda:
            torch.cuda.synchronize()
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(Path(folder) / f"rank-{rank}.json.gz"))
    except Exception:
        logger.exception("the trace of the step was not written to %s", folder)
