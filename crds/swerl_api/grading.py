"""The Jobs that grade patches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import ApiModel, NonNegative, Positive, Resources, Seconds


class GradingSpec(ApiModel):
    """The Jobs that grade patches."""

    timeout_seconds: Seconds = 600
    """Seconds the tests of one patch may run; then the verdict is `timeout`."""
    retries: int = Field(default=2, ge=0, le=10)
    """Retries after an infrastructure failure; failed tests are never retried."""
    resources: Resources = Field(
        default_factory=lambda: Resources(requests={"cpu": "1", "memory": "2Gi"}, limits={"cpu": "1", "memory": "2Gi"})
    )
    """Resources of one grading Pod; equal requests and limits keep timing-sensitive tests steady."""
    protected_paths: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=64)] = Field(
        default_factory=list
    )
    """Glob patterns, relative to the repository, restored from the base commit before the tests run, in addition to the
    task's own test files."""
    cache: bool = True
    """Reuse the verdict of an identical patch on the same image and eval script."""
    contrast: Literal["always", "never"] = "always"
    """always: a patch that passes is run once more with altered tests, whose outcome an honest patch cannot change;
    never: one run decides."""
    allow_unshielded: bool = False
    """Accept verdicts of images without setpriv, where code of the patch may read the memory of the process that
    reports. Otherwise such a grading is an infrastructure failure."""
    max_concurrent: Positive = 32
    """Grading Jobs of this job at the same time."""


class TrainingGradingSpec(GradingSpec):
    """The Jobs that grade the patches of a training."""

    gold_canary_every: NonNegative = 10
    """Training steps between two gradings of a task's reference fix, which must pass; 0 means none. The metric
    sandbox/gold_canary_pass_rate is the share that passed; it shows broken grading."""
