"""Which tasks are trained on, and which are held out to measure progress."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import ApiModel, NonNegative, Positive, Text
from .source import SourceSpec

TaskFormat = Literal["swebench-task-repo", "jsonl"]


class TaskSelection(ApiModel):
    """Which tasks of a source are used."""

    source: SourceSpec
    """Source of the tasks."""
    format: TaskFormat = "swebench-task-repo"
    """swebench-task-repo: one folder per task; jsonl: one SWE-bench record per line. Ignored for huggingFace; its rows
    must hold their eval scripts."""
    slice: Text | None = None
    """Python slice over the tasks in their order, after `filter`, e.g. "0:32"; absent means all."""
    filter: Text | None = None
    """Regular expression matched at the start of instance_id; only matching tasks are used."""


class TasksSpec(TaskSelection):
    """The training tasks."""

    shuffle: bool = True
    """Shuffle each epoch, repeatably from `seed` and the epoch number."""
    seed: NonNegative = 0
    """Seed of the shuffle."""


class HeldOutSpec(TaskSelection):
    """Tasks that are never trained on, solved to measure progress."""

    every: NonNegative = 0
    """Training steps between two evaluations; 0 means only at the start and the end."""
    samples: Positive = 1
    """Episodes per held-out task in one evaluation."""
    at_start: bool = True
    """Evaluate before the first step (status.heldOut.before)."""
    at_end: bool = True
    """Evaluate after the last step (status.heldOut.after)."""
    temperature: float = Field(default=0.0, ge=0, le=10)
    """Sampling temperature of evaluation episodes; 0 is greedy."""
