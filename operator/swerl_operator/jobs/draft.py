"""The status being written: the fields of the operator, changed step by step, and the patch that follows from it.

Guarantee: the patch touches only fields that changed and never one the driver writes, except to clear what spoke of an
attempt that is over.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from swerl_api import Condition, JobCondition, JobPhase, JobReason, SweRLJobStatus, find_condition, set_condition
from swerl_api.conditions import ConditionStatus

from .attempt import Object
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


class Draft:
    """A status of generation `generation` at time `now`."""

    def __init__(self, status: SweRLJobStatus, generation: int, now: datetime) -> None:
        self.before = status
        self.status = status.model_copy(deep=True)
        self.status.observed_generation = generation
        self._generation = generation
        self._time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._cleared: set[str] = set()

    def condition(self, type: str, status: ConditionStatus, reason: str, message: str = "") -> None:
        """Set one condition."""
        self.status.conditions = set_condition(
            self.status.conditions, type, status, reason, message, generation=self._generation, time=self._time
        )

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

    def patch(self) -> Object | None:
        """Merge patch of the status, or None when nothing changed."""
        old, new = _dump(self.before), _dump(self.status)
        changed: dict[str, Any] = {key: new.get(key) for key in OWNED if old.get(key) != new.get(key)}
        changed |= {key: None for key in self._cleared if key in old}
        return {"status": changed} if changed else None

    def news(self) -> list[Condition]:
        """Conditions whose status or reason changed."""
        fresh = []
        for condition in self.status.conditions:
            old = find_condition(self.before.conditions, condition.type)
            if old is None or (old.status, old.reason) != (condition.status, condition.reason):
                fresh.append(condition)
        return fresh

    def _forget_attempt(self) -> None:
        self.status.submission = None
        self.status.ray_cluster = None
        self._cleared.update(OF_THE_ATTEMPT)


def holds(status: SweRLJobStatus, type: str) -> bool:
    """Whether condition `type` is True."""
    condition = find_condition(status.conditions, type)
    return condition is not None and condition.status == "True"


def _dump(status: SweRLJobStatus) -> Object:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
