"""Warm-up and decay of the learning rate."""

from __future__ import annotations

import math
from typing import Any

import pytest
from swerl_api.algorithm import LrSchedule
from swerl_trainer.algorithm.schedule import learning_rate


def rates(steps: int = 6, **fields: Any) -> list[float]:
    schedule = LrSchedule(**fields)
    return [learning_rate(2.0, schedule, step=step, steps=steps) for step in range(steps)]


def test_by_default_the_rate_is_constant() -> None:
    assert rates() == [2.0] * 6


def test_warm_up_rises_linearly_to_the_full_rate() -> None:
    assert rates(warmup_steps=4) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_linear_decay_ends_at_the_floor_with_the_last_step() -> None:
    assert rates(decay="linear", floor=0.1) == pytest.approx([2.0, 1.64, 1.28, 0.92, 0.56, 0.2])


def test_cosine_decay_is_half_a_period() -> None:
    expected = [1 + math.cos(math.pi * step / 5) for step in range(6)]
    assert rates(decay="cosine") == pytest.approx(expected)


def test_decay_begins_after_the_warm_up() -> None:
    assert rates(decay="linear", warmup_steps=2) == pytest.approx([1.0, 2.0, 2.0, 4 / 3, 2 / 3, 0.0])


def test_decay_stays_at_the_floor_when_steps_were_lowered() -> None:
    schedule = LrSchedule(decay="cosine", floor=0.25)
    assert learning_rate(2.0, schedule, step=9, steps=4) == pytest.approx(0.5)
    assert learning_rate(2.0, schedule, step=0, steps=1) == pytest.approx(2.0)
