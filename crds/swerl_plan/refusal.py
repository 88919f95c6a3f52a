"""Why a job is refused before it takes anything, with a layout that fits. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from swerl_api import SourceSpec, SweRLJobSpec

from .job import Machines, job_problems, plan_job
from .known import known_shape
from .search import propose
from .shape import ModelShape


@dataclass(frozen=True)
class Models:
    """Shapes of a job's models; None: not known."""

    policy: ModelShape | None
    judge: ModelShape | None = None

    def or_else(self, others: Models) -> Models:
        """With those of `others` that are not known here."""
        return Models(self.policy or others.policy, self.judge or others.judge)


def known_models(spec: SweRLJobSpec) -> Models:
    """Those that are known by their Hugging Face id, before anything is downloaded."""
    return Models(_known(spec.model.source), _known(spec.judge.model) if spec.judge else None)


def _known(source: SourceSpec) -> ModelShape | None:
    return known_shape(source.hugging_face.id) if source.hugging_face else None


def refusal(spec: SweRLJobSpec, models: Models, machines: Machines) -> str | None:
    """Why `spec` cannot run, and what to use instead; None when it can, or when its model is not known."""
    if models.policy is None:
        return None
    plan = plan_job(spec, models.policy, machines, models.judge)
    problems = plan.problems if plan else tuple(job_problems(spec, models.policy, machines, models.judge))
    if not problems:
        return None
    proposal = propose(spec, models.policy, machines)
    remedy = f"; a layout that fits: {proposal}" if proposal else ""
    return "; ".join(problems) + remedy
