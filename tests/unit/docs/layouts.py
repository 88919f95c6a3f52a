"""The plans of the examples in docs/layout-plans.md; `python -m tests.unit.docs.layouts` writes them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swerl_api import SweRLJobSpec
from swerl_plan import (
    JobPlan,
    Machines,
    Models,
    evaluation_plan,
    known_models,
    known_shape,
    plan_job,
    plan_text,
)
from swerl_trainer.plan import GIB, H100_GIB, read_evaluation, read_job

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/layout-plans.md"
START = "<!-- plans: written by python -m tests.unit.docs.layouts -->\n"
MACHINES = Machines(int(H100_GIB * GIB))
EXAMPLES = ROOT / "examples"
ROLLOUT_ONLY = EXAMPLES / "sweeval-rollout-only.yaml"  # an evaluation's model is on a volume
ROLLOUT_ONLY_MODEL = "Qwen/Qwen3-0.6B"
FOLDER = EXAMPLES / "swe-gym-qwen3-4b"  # its model is on a volume, which its loader fills


def examples() -> list[Path]:
    """Example jobs for GPUs."""
    return [*sorted(EXAMPLES.glob("swerljob-*.yaml")), FOLDER / "swerljob.yaml"]


def models_of(path: Path, spec: SweRLJobSpec) -> Models:
    """Shapes of the models of an example."""
    if path.parent != FOLDER:
        return known_models(spec)
    settings = (FOLDER / "loader/settings.env").read_text().splitlines()
    model = next(line.removeprefix("MODEL=") for line in settings if line.startswith("MODEL="))
    return Models(known_shape(model))


def plan_of(path: Path) -> tuple[str, JobPlan]:
    """Text and plan of an example."""
    spec = read_job(path)
    models = models_of(path, spec)
    assert models.policy is not None, f"{path.name}: its model has no row in swerl_plan.known"
    plan = plan_job(spec, models.policy, MACHINES, models.judge)
    assert plan is not None, path.name
    return plan_text(spec, models.policy, plan), plan


def plan_of_engines(path: Path, model: str) -> tuple[str, tuple[str, ...]]:
    """Text of the plan of an evaluation's engines, and what refuses them."""
    spec, shape = read_evaluation(path), known_shape(model)
    assert spec is not None and shape is not None, path.name
    return evaluation_plan(spec, shape, MACHINES)


def sections() -> Iterator[str]:
    """One section of the page for each example."""
    for path in examples():
        yield _section(path, plan_of(path)[0])
    yield _section(ROLLOUT_ONLY, plan_of_engines(ROLLOUT_ONLY, ROLLOUT_ONLY_MODEL)[0])


def _section(path: Path, text: str) -> str:
    comment = [line.removeprefix("# ") for line in path.read_text().splitlines() if line.startswith("# ")]
    name = path.relative_to(EXAMPLES)
    return f"## [{name}](../examples/{name})\n\n{comment[0]}\n\n```text\n{text}\n```\n"


def page() -> str:
    """The page with the plans of the present code."""
    return PAGE.read_text().partition(START)[0] + START + "\n" + "\n".join(sections())


if __name__ == "__main__":
    PAGE.write_text(page())
