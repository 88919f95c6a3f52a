"""The plans of the examples in docs/layouts.md; `python -m tests.unit.docs.layouts` writes them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swerl_api import SweRLJobSpec
from swerl_plan import JobPlan, Machines, Models, known_models, known_shape, plan_job, plan_text
from swerl_trainer.plan import GIB, H100_GIB, read_job

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/layouts.md"
START = "<!-- plans: written by python -m tests.unit.docs.layouts -->\n"
MACHINES = Machines(int(H100_GIB * GIB))
EXAMPLES = ROOT / "examples"
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


def sections() -> Iterator[str]:
    """One section of the page for each example."""
    for path in examples():
        comment = [line.removeprefix("# ") for line in path.read_text().splitlines() if line.startswith("# ")]
        name = path.relative_to(EXAMPLES)
        yield f"### [{name}](../examples/{name})\n\n{comment[0]}\n\n```text\n{plan_of(path)[0]}\n```\n"


def page() -> str:
    """The page with the plans of the present code."""
    return PAGE.read_text().partition(START)[0] + START + "\n" + "\n".join(sections())


if __name__ == "__main__":
    PAGE.write_text(page())
