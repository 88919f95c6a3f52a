"""Kubernetes Events for changed conditions, so that `kubectl describe` tells the story of a job."""

from __future__ import annotations

import uuid
from typing import Literal

from swerl_api import API_VERSION, Condition, JobCondition, JobReason

from ..errors import OperatorError
from ..kube import Kube
from .attempt import Object

MESSAGE_LIMIT = 1000  # characters; the API server takes 1024
_EXPECTED_GOOD = {JobCondition.VALIDATED, JobCondition.IMAGES_READY, JobCondition.CAPACITY}
_ATTEMPT_FAILURES = {JobReason.HEAD_LOST, JobReason.DRIVER_FAILED}


async def post_event(api: Kube, job: Object, condition: Condition) -> None:
    """One Event about `job`; a failure to post is no failure of the job."""
    kind = event_type(condition)
    if kind is None:
        return
    metadata = job["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": metadata["namespace"], "name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}"},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "SweRLJob",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": kind,
        "reason": condition.reason,
        "message": f"{condition.type} {condition.status}: {condition.message}"[:MESSAGE_LIMIT],
        "firstTimestamp": condition.last_transition_time,
        "lastTimestamp": condition.last_transition_time,
        "count": 1,
        "source": {"component": "swe-rl-operator"},
    }
    try:
        await api.create("events", body)
    except OperatorError:
        return


def event_type(condition: Condition) -> Literal["Normal", "Warning"] | None:
    """Warning: somebody should look. None: on its way, not worth an Event."""
    if condition.status == "True":
        return "Warning" if condition.type == JobCondition.FAILED else "Normal"
    if condition.type in _EXPECTED_GOOD and condition.reason != JobReason.PREFLIGHT:
        return "Warning"
    if condition.type == JobCondition.TRAINING and condition.reason in _ATTEMPT_FAILURES:
        return "Warning"
    unschedulable = condition.type == JobCondition.CLUSTER_READY and condition.reason == JobReason.POD_UNSCHEDULABLE
    return "Warning" if unschedulable else None
