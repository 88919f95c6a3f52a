"""Which changed conditions of a job become Events."""

from __future__ import annotations

from swerl_api import Condition, JobCondition, JobReason
from swerl_api.event_body import EventType
from swerl_kube import Json, KubeClient

from .. import events

_EXPECTED_TRUE = {JobCondition.VALIDATED, JobCondition.IMAGES_READY, JobCondition.CAPACITY}
_ATTEMPT_FAILURES = {JobReason.HEAD_LOST, JobReason.DRIVER_FAILED}
_CLUSTER_FAULTS = {JobReason.POD_UNSCHEDULABLE, JobReason.POD_DISRUPTED}


async def post_event(api: KubeClient, job: Json, condition: Condition) -> None:
    """One Event about `job` if the condition becomes one; failing to post it is not an error."""
    if (type := event_type(condition)) is not None:
        await events.post_condition(api, "SweRLJob", job, condition, type)


def event_type(condition: Condition) -> EventType | None:
    """Warning: a user should look at it. None: mere progress, not worth an Event."""
    if condition.status == "True":
        return "Warning" if condition.type == JobCondition.FAILED else "Normal"
    if condition.type in _EXPECTED_TRUE and condition.reason != JobReason.PREFLIGHT:
        return "Warning"
    if condition.type == JobCondition.TRAINING and condition.reason in _ATTEMPT_FAILURES:
        return "Warning"
    is_fault = condition.type == JobCondition.CLUSTER_READY and condition.reason in _CLUSTER_FAULTS
    return "Warning" if is_fault else None
