"""Builds the status of a SweRLJob.

Guarantee: the patch never touches a field the driver writes, except to clear what described an attempt that is over.
"""

from __future__ import annotations

from swerl_api import JobCondition, JobPhase, JobReason, SweRLJobStatus

from ..status_builder import StatusBuilder

OPERATOR_FIELDS = (
    "phase", "reason", "conditions", "observedGeneration", "attempt", "rayCluster", "failures", "startTime",
    "attemptTime", "completionTime", "submission",
)  # fmt: skip
# The driver writes these, the operator clears them when the attempt is over.
DRIVER_FIELDS = ("etaSeconds", "eta", "sandboxes", "grading", "tokensPerSecond")


class JobStatusBuilder(StatusBuilder[SweRLJobStatus]):
    """Writes only the fields of the operator."""

    owned = OPERATOR_FIELDS

    def phase(self, phase: JobPhase) -> None:
        """Set the phase of the printer column."""
        self.status.phase = phase

    def start_attempt(self, reason: str, message: str) -> None:
        """The next attempt starts."""
        status = self.status
        status.attempt = (status.attempt or 0) + 1
        status.start_time = status.start_time or self._time
        status.attempt_time = self._time
        self._clear_attempt()
        self.condition(JobCondition.TRAINING, "False", reason, message)
        self.condition(JobCondition.CLUSTER_READY, "False", reason, message)
        self.phase("Retrying" if status.failures else "Starting")

    def suspend(self) -> None:
        """The job is suspended."""
        self._clear_attempt()
        text = "spec.suspend is true; set it to false to start the next attempt from the newest checkpoint"
        self.condition(JobCondition.SUSPENDED, "True", JobReason.SUSPENDED, text)
        self.condition(JobCondition.TRAINING, "False", JobReason.SUSPENDED, text)
        self.condition(JobCondition.CLUSTER_READY, "False", JobReason.CLUSTER_DELETED, text)
        self.phase("Suspended")

    def retry(self) -> None:
        """A failed job starts its next attempt on request, with the time and the failures that a new one may have."""
        text = "another attempt was requested"
        self.status.failures = 0
        self.status.completion_time = self.status.start_time = None
        self.condition(JobCondition.FAILED, "False", JobReason.RETRY_REQUESTED, text)
        self.start_attempt(JobReason.RETRY_REQUESTED, text)

    def finish(self, outcome: str, reason: str, message: str) -> None:
        """The job is over; `outcome` is Complete or Failed."""
        self._clear_attempt()
        self.status.completion_time = self._time
        self.condition(outcome, "True", reason, message)
        self.condition(JobCondition.TRAINING, "False", reason, message)
        self.condition(JobCondition.CLUSTER_READY, "False", JobReason.CLUSTER_DELETED, "the job is over")
        self.phase("Complete" if outcome == JobCondition.COMPLETE else "Failed")

    def _clear_attempt(self) -> None:
        self.status.submission = None
        self.status.ray_cluster = None
        self._cleared.update(DRIVER_FIELDS)
