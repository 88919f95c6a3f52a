"""The LLM judge, which scores the steps of an episode."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import ApiModel, NonNegative, Positive, Seconds
from .source import SourceSpec


class JudgeView(ApiModel):
    """How much of an episode the judge sees of the step it scores, and of those before."""

    history_steps: NonNegative = 8
    """Steps before the scored step."""
    problem_chars: Positive = 8_000
    """Maximum characters of the problem statement."""
    output_chars: int = Field(default=4_000, ge=1, le=4_000)
    """Maximum characters of each command output in the scored step."""
    history_output_chars: int = Field(default=1_000, ge=0, le=4_000)
    """Maximum characters of each command output in earlier steps."""


class JudgeSpec(ApiModel):
    """A second model that scores steps."""

    model: SourceSpec
    """The judge's model folder in Hugging Face format."""
    votes: int = Field(default=3, ge=1, le=32)
    """Votes per step; those that give no score are left out, a step without any is unscored."""
    aggregation: Literal["mean", "majority"] = "mean"
    """A step's score: the mean of its valid votes, or their majority (0 when tied)."""
    engines: Positive = 1
    """Inference engines of the judge."""
    gpus_per_engine: NonNegative = 0
    """GPUs of one judge engine; 0 runs it on CPU."""
    temperature: float = Field(default=1.0, ge=0, le=10)
    """Sampling temperature of votes."""
    max_tokens: Positive = 4096
    """Maximum tokens of one vote."""
    context_tokens: int = Field(default=32_768, ge=64)
    """Tokens of the judge's prompt and vote together."""
    max_concurrent: Positive = 32
    """Votes requested at the same time, over all episodes of the job."""
    skip_submit: bool = True
    """Leave the step that submits unscored; the tests decide about it."""
    view: JudgeView = Field(default_factory=JudgeView)
    """What the judge reads."""
    timeout_seconds: Seconds = 300
    """Seconds one vote may take, and all open votes once their episode has ended; later scores are dropped."""
