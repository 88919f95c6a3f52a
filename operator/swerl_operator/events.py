"""Kubernetes Events, shown by `kubectl describe`, and the same facts in the log."""

from __future__ import annotations

import logging

from swerl_api import Condition
from swerl_api.event_body import EventType, event_body
from swerl_kube import Json, KubeClient, KubeError

logger = logging.getLogger(__name__)


async def post_condition(api: KubeClient, kind: str, body: Json, condition: Condition, type: EventType) -> None:
    """One Event and one log line about a condition of `body`, a `kind`; a failure to post is ignored."""
    involved = {"kind": kind, **{key: body["metadata"][key] for key in ("namespace", "name", "uid")}}
    message = f"{condition.type} {condition.status}: {condition.message}"
    level = logging.WARNING if type == "Warning" else logging.INFO
    logger.log(
        level,
        "%s %s/%s: %s: %s",
        kind,
        involved["namespace"],
        involved["name"],
        condition.reason,
        message,
    )
    await post(api, involved, type, condition.reason, message, condition.last_transition_time)


async def post(
    api: KubeClient,
    involved: dict[str, str],
    type: EventType,
    reason: str,
    message: str,
    time: str | None,
) -> None:
    """One Event about `involved` (kind, namespace, name, uid); a failure to post is ignored."""
    body = event_body(involved, type=type, reason=reason, message=message, time=time, component="swe-rl-operator")
    try:
        await api.create("events", body)
    except KubeError:
        return
