"""Which changed conditions of an evaluation become Events."""

from __future__ import annotations

from swerl_api import Condition, EvalCondition, EvalReason
from swerl_api.event_body import EventType
from swerl_kube import Json, KubeClient

from .. import events


async def post_event(api: KubeClient, body: Json, condition: Condition) -> None:
    """One Event about the evaluation if the condition becomes one; failing to post it is not an error."""
    if _becomes_event(condition):
        await events.post_condition(api, "SweEval", body, condition, event_type(condition))


def event_type(condition: Condition) -> EventType:
    good = condition.status == "True" and condition.type != EvalCondition.FAILED
    return "Normal" if good else "Warning"


def _becomes_event(condition: Condition) -> bool:
    """Whether users should see it; mere progress is not worth an Event."""
    if condition.status == "True":
        return True
    checks = (EvalCondition.VALIDATED, EvalCondition.IMAGES_READY, EvalCondition.CAPACITY)
    lost = condition.reason == EvalReason.ENGINES_LOST and condition.type == EvalCondition.MODEL_READY
    return lost or (condition.type in checks and condition.reason != EvalReason.PREFLIGHT)
