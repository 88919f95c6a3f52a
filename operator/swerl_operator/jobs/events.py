"""Kubernetes Events for changed conditions, so that `kubectl describe` tells the story of a job."""

from __future__ import annotations

from swerl_api import Condition, JobCondition, JobReason

from .. import events
from ..kube import Kube
from .attempt import Object

_EXPECTED_GOOD = {JobCondition.VALIDATED, JobCondition.IMAGES_READY, JobCondition.CAPACITY}
_ATTEMPT_FAILURES = {JobReason.HEAD_LOST, JobReason.DRIVER_FAILED}


async def post_event(api: Kube, job: Object, condition: Condition) -> None:
    """One Event about `job`; a failure to post is no failure of the job."""
    kind = event_type(condition)
    if kind is None:
        return
    await events.post_condition(api, "SweRLJob", job, condition, kind)


def event_type(condition: Condition) -> events.EventType | None:
    """Warning: somebody should look. None: on its way, not worth an Event."""
    if condition.status == "True":
        return "Warning" if condition.type == JobCondition.FAILED else "Normal"
    if condition.type in _EXPECTED_GOOD and condition.reason != JobReason.PREFLIGHT:
        return "Warning"
    if condition.type == JobCondition.TRAINING and condition.reason in _ATTEMPT_FAILURES:
        return "Warning"
    unschedulable = condition.type == JobCondition.CLUSTER_READY and condition.reason == JobReason.POD_UNSCHEDULABLE
    return "Warning" if unschedulable else None
