"""Builds the status of a SweEval."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import EvalCondition, EvalPhase, EvalProgress, EvalReason, SweEvalStatus

from ..status_builder import StatusBuilder


class EvalStatusBuilder(StatusBuilder[SweEvalStatus]):
    """Writes every field: the operator owns them all."""

    def phase(self, phase: EvalPhase) -> None:
        """Set the phase of the printer column."""
        self.status.phase = phase

    def start(self) -> None:
        """The evaluation starts."""
        self.status.start_time = self._time
        self.phase("Pending")

    def aggregate_shards(self, shards: Sequence[EvalProgress]) -> None:
        """Sum up the progress of the shards."""
        if not shards:
            return
        status = self.status
        status.total = max(shard.total or 0 for shard in shards)
        status.done = sum(shard.done or 0 for shard in shards)
        status.resolved = sum(shard.resolved or 0 for shard in shards)
        status.errors = sum(shard.errors or 0 for shard in shards)
        status.progress = f"{status.done}/{status.total}"
        status.rate = round(status.resolved / status.done, 4) if status.done else None

    def set_totals(self, merged: EvalProgress) -> None:
        """Take the totals of the merged results."""
        for name in EvalProgress.model_fields:
            setattr(self.status, name, getattr(merged, name))

    def suspend(self) -> None:
        """The evaluation is suspended."""
        text = "spec.suspend is true; set it to false to go on with the samples that are left"
        self.condition(EvalCondition.SUSPENDED, "True", EvalReason.SUSPENDED, text)
        self.stop(EvalReason.SUSPENDED, text)
        self.phase("Suspended")

    def engines_lost(self, message: str) -> None:
        """The engines are gone; new ones start."""
        self.status.failures = (self.status.failures or 0) + 1
        self.status.submission = None
        self.condition(EvalCondition.MODEL_READY, "False", EvalReason.ENGINES_LOST, message)
        self.condition(EvalCondition.RUNNING, "False", EvalReason.ENGINES_LOST, message)
        self.phase("Starting")

    def stop(self, reason: str, message: str) -> None:
        """Nothing runs any more, or everything is about to end."""
        self.status.submission = None
        self.condition(EvalCondition.RUNNING, "False", reason, message)
        self.condition(EvalCondition.MODEL_READY, "False", EvalReason.ENGINES_DELETED, message)

    def finish(self, outcome: str, reason: str, message: str) -> None:
        """The evaluation is over; `outcome` is Complete or Failed."""
        self.status.completion_time = self._time
        self.condition(outcome, "True", reason, message)
        self.stop(reason, message)
        self.phase("Complete" if outcome == EvalCondition.COMPLETE else "Failed")
