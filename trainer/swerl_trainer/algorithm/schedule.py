"""Learning rate of a step: linear warm-up, then constant, linear or cosine decay (Loshchilov & Hutter 2017, eq. 5)."""

from __future__ import annotations

import math

from swerl_api.algorithm import LrSchedule


def learning_rate(lr: float, schedule: LrSchedule, *, step: int, steps: int) -> float:
    """Rate of step `step` (from 0) of `steps`: `lr` after the warm-up, `floor * lr` at the last step of a decay."""
    if step < schedule.warmup_steps:
        return lr * (step + 1) / schedule.warmup_steps
    if schedule.decay == "constant":
        return lr
    decaying = max(steps - 1 - schedule.warmup_steps, 1)
    done = min((step - schedule.warmup_steps) / decaying, 1.0)
    share = 1 - done if schedule.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return lr * (schedule.floor + (1 - schedule.floor) * share)
