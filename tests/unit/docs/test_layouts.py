"""Every example job fits its layout with room, and the page of plans has its plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from swerl_plan import refusal
from swerl_trainer.plan import read_job

from .layouts import (
    EXAMPLES,
    MACHINES,
    PAGE,
    ROLLOUT_ONLY,
    ROLLOUT_ONLY_MODEL,
    examples,
    models_of,
    page,
    plan_of,
    plan_of_engines,
)

ROOM = 0.9  # of a GPU, and of what a trainer Pod requests


def test_page_has_the_plans_of_the_examples() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.unit.docs.layouts"


def test_every_example_job_has_a_plan() -> None:
    jobs = {path for path in EXAMPLES.rglob("*.yaml") if "kind: SweRLJob" in path.read_text().splitlines()}
    assert {path for path in jobs if path.parent.name != "invalid"} == set(examples())


@pytest.mark.parametrize("path", examples(), ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_example_fits_with_room(path: Path) -> None:
    spec = read_job(path)
    assert refusal(spec, models_of(path, spec), MACHINES) is None
    _, plan = plan_of(path)
    assert plan.warnings == ()
    assert MACHINES.gpu_memory is not None and plan.gpu_peak <= ROOM * MACHINES.gpu_memory
    assert plan.host_budget is not None and plan.host_peak <= ROOM * plan.host_budget


def test_engines_of_the_example_without_training_fit() -> None:
    text, problems = plan_of_engines(ROLLOUT_ONLY, ROLLOUT_ONLY_MODEL)
    assert "engines  1 of 1 GPUs" in text and not problems


@pytest.mark.parametrize("path", examples(), ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_example_with_its_own_engines_is_a_step_ahead_and_has_room_for_both_steps(path: Path) -> None:
    spec = read_job(path)
    if spec.algorithm.name == "sft" or spec.colocate:
        assert spec.algorithm.max_staleness == 0
        return
    assert spec.algorithm.max_staleness >= 1
    assert "one step ahead" in path.read_text().splitlines()[0]
    assert spec.sandbox.max_concurrent >= 2 * spec.algorithm.prompts_per_step * spec.algorithm.group_size


def test_plan_of_a_job_with_a_judge_has_the_judges_engines() -> None:
    text, plan = plan_of(EXAMPLES / "swerljob-judge-8b.yaml")
    assert plan.judge is not None
    assert "\njudge    1 of 8 GPUs, each GPU with " in text
    assert "\njudge" not in plan_of(EXAMPLES / "swerljob-1x8-4b.yaml")[0]
