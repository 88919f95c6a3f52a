"""The benchmark of the trainer judges the plan's errors as the plan's test does."""

from __future__ import annotations

import pytest

from tests.bench.figures import Figure
from tests.bench.trainer_bench import PlanErrors, plan_figures

ERRORS: PlanErrors = {
    ("data", 0, "weights"): -0.004,
    ("data", 0, "step"): 0.05,
    ("tensor", 1, "save"): -0.08,
    ("interleaved", 1, "save"): -0.12,
    ("tensor", 0, "update"): 0.13,
}


def test_smaller_stage_may_save_less_than_the_plan_and_every_other_error_has_its_own_limit() -> None:
    figures = {figure["name"]: Figure(**figure) for figure in plan_figures(ERRORS)}
    assert {name: (figure.ours, figure.goal) for name, figure in figures.items()} == {
        "plan_error_of_a_part_largest": (0.004, 0.01),
        "plan_error_largest": (0.08, 0.10),
        "plan_error_smaller_stage_save": (0.12, 0.15),
        "plan_error_small_ranks": (0.13, 0.20),
    }
    assert all(figure.meets_goal for figure in figures.values())


@pytest.mark.parametrize(
    ("place", "error"),
    [
        (("interleaved", 0, "save"), -0.12),
        (("interleaved", 1, "save"), 0.12),
        (("interleaved", 1, "save"), -0.16),
        (("interleaved", 1, "step"), -0.12),
        (("data", 0, "gradients"), 0.02),
        (("tensor", 0, "switch"), 0.21),
        (("adapters", 0, "step"), -0.13),
        (("adapters", 0, "save"), 0.13),
        (("data", 0, "switch"), 0.13),
    ],
)
def test_error_beyond_its_limit_is_short(place: tuple[str, int, str], error: float) -> None:
    assert [Figure(**figure).meets_goal for figure in plan_figures({place: error})] == [False]
