"""The status of a SweRLJob being written.

Guarantee: the patch never touches a field the driver writes, except to clear what spoke of an attempt that is over.
"""

from __future__ import annotations

from swerl_api import JobCondition, JobPhase, JobReason, SweRLJobStatus

from ..draft import StatusDraft
from .problem import Problem

OWNED = (
    "phase", "conditions", "observedGeneration", "attempt", "rayCluster", "failures", "startTime", "attemptTime",
    "completionTime", "submission",
)  # fmt: skip
OF_THE_ATTEMPT = (
    "etaSeconds",
    "eta",
    "sandboxes",
    "grading",
    "tokensPerSecond",
)  # written by the driver, cleared by us


class Draft(StatusDraft[SweRLJobStatus]):
    """The fields of the operator, changed step by step."""

    owned = OWNED

    def phase(self, phase: JobPhase) -> None:
        """Set the word of the printer column."""
        self.status.phase = phase

    def blocked(self, type: str, problem: Problem) -> None:
        """`problem` keeps the job from going on; condition `type` says so."""
        self.condition(type, "False", problem.reason, problem.message)
        self.phase("Blocked")

    def begin(self, reason: str, message: str) -> None:
        """The next attempt starts."""
        status = self.status
        status.attempt = (status.attempt or 0) + 1
        status.start_time = status.start_time or self._time
        status.attempt_time = self._time
        self._forget_attempt()
        self.condition(JobCondition.TRAINING, "False", reason, message)
        self.condition(JobCondition.CLUSTER_READY, "False", reason, message)
        self.phase("Retrying" if status.failures else "Starting")

    def suspended(self) -> None:
        """The job rests."""
        self._forget_attempt()
        text = "spec.suspend is true; set it to false to start the next attempt from the newest checkpoint"
        self.condition(JobCondition.SUSPENDED, "True", JobReason.SUSPENDED, text)
        self.condition(JobCondition.TRAINING, "False", JobReason.SUSPENDED)
        self.condition(JobCondition.CLUSTER_READY, "False", JobReason.CLUSTER_DELETED)
        self.phase("Suspended")

    def finish(self, outcome: str, reason: str, message: str) -> None:
        """The job is over; `outcome` is Complete or Failed."""
        self._forget_attempt()
        self.status.completion_time = self._time
        self.condition(outcome, "True", reason, message)
        self.condition(JobCondition.TRAINING, "False", reason)
        self.condition(JobCondition.CLUSTER_READY, "False", JobReason.CLUSTER_DELETED)
        self.phase("Complete" if outcome == JobCondition.COMPLETE else "Failed")

    def _forget_attempt(self) -> None:
        self.status.submission = None
        self.status.ray_cluster = None
        self._cleared.update(OF_THE_ATTEMPT)
