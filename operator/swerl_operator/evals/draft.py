"""The status of a SweEval being written."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import EvalCondition, EvalPhase, EvalProgress, EvalReason, SweEvalStatus

from ..draft import StatusDraft
from ..jobs.problem import Problem


class Draft(StatusDraft[SweEvalStatus]):
    """All fields are the operator's."""

    def phase(self, phase: EvalPhase) -> None:
        """Set the word of the printer column."""
        self.status.phase = phase

    def begin(self) -> None:
        """The operator works on it from now on."""
        self.status.start_time = self._time
        self.phase("Pending")

    def blocked(self, type: str, problem: Problem) -> None:
        """`problem` keeps the evaluation from going on; condition `type` says so."""
        self.condition(type, "False", problem.reason, problem.message)
        self.phase("Blocked")

    def count(self, parts: Sequence[EvalProgress]) -> None:
        """Sum up how far the shards are."""
        if not parts:
            return
        status = self.status
        status.total = max(part.total or 0 for part in parts)
        status.done = sum(part.done or 0 for part in parts)
        status.resolved = sum(part.resolved or 0 for part in parts)
        status.errors = sum(part.errors or 0 for part in parts)
        status.progress = f"{status.done}/{status.total}"
        status.rate = round(status.resolved / status.done, 4) if status.done else None

    def conclude(self, whole: EvalProgress) -> None:
        """Say what the merged results amount to."""
        for name in EvalProgress.model_fields:
            setattr(self.status, name, getattr(whole, name))

    def suspended(self) -> None:
        """The evaluation rests."""
        text = "spec.suspend is true; set it to false to go on with the attempts that are left"
        self.condition(EvalCondition.SUSPENDED, "True", EvalReason.SUSPENDED, text)
        self.stopped(EvalReason.SUSPENDED)
        self.phase("Suspended")

    def engines_lost(self, message: str) -> None:
        """The engines are gone; they start anew."""
        self.status.failures = (self.status.failures or 0) + 1
        self.status.submission = None
        self.condition(EvalCondition.MODEL_READY, "False", EvalReason.ENGINES_LOST, message)
        self.condition(EvalCondition.RUNNING, "False", EvalReason.ENGINES_LOST)
        self.phase("Starting")

    def stopped(self, reason: str) -> None:
        """Nothing runs any more, or will soon."""
        self.status.submission = None
        self.condition(EvalCondition.RUNNING, "False", reason)
        self.condition(EvalCondition.MODEL_READY, "False", EvalReason.ENGINES_DELETED)

    def finish(self, outcome: str, reason: str, message: str) -> None:
        """The evaluation is over; `outcome` is Complete or Failed."""
        self.status.completion_time = self._time
        self.condition(outcome, "True", reason, message)
        self.stopped(reason)
        self.phase("Complete" if outcome == EvalCondition.COMPLETE else "Failed")
