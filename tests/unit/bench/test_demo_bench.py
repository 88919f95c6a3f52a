"""What the demo's figures let pass."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.bench.demo_bench import PASS_STEPS, Memory, figures
from tests.bench.figures import Figure


def summary(*, last: float = 0.8, distances: tuple[float, ...] = (1e-6, 2e-5)) -> dict[str, Any]:
    """Of a run whose reward rose from 0 to `last`."""
    return {
        "rewards": [0.0] * PASS_STEPS + [last] * PASS_STEPS,
        "resolved_rates": [0.8] * PASS_STEPS,
        "held_out_before": 0.2,
        "held_out_after": 0.7,
        "logprob_max_abs_diff": list(distances),
        "seconds": {"job_complete": 600.0},
    }


def found(name: str, *summaries: dict[str, Any]) -> Figure:
    return next(figure for figure in figures(0.2, list(summaries), Memory()) if figure.name == name)


@pytest.mark.parametrize(("last", "holds"), [(0.8, True), (0.0, False), (-0.1, False)])
def test_reward_has_to_rise_with_every_seed(last: float, holds: bool) -> None:
    assert found("reward_rise_least", summary(), summary(last=last)).meets_goal is holds


def test_largest_distance_of_all_seeds_counts() -> None:
    assert found("logprob_distance_max", summary(), summary(distances=(3e-5, 1e-6))).ours == 3e-5


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_nan_distance_is_a_failure(value: float, position: int) -> None:
    distances = [1e-6, 2e-5]
    distances.insert(position, value)
    with pytest.raises(ValueError, match="not finite"):
        figures(0.2, [summary(), summary(distances=tuple(distances))], Memory())
