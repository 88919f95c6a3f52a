"""Kubernetes Events, so that `kubectl describe` tells the story of an object."""

from __future__ import annotations

import uuid
from typing import Any, Literal

from swerl_api import API_VERSION

from .errors import OperatorError
from .kube import Kube

MESSAGE_LIMIT = 1000  # characters; the API server takes 1024


async def post(
    api: Kube,
    about: dict[str, str],
    kind: Literal["Normal", "Warning"],
    reason: str,
    message: str,
    time: str | None,
) -> None:
    """One Event about the object `about` (kind, namespace, name, uid); a failure to post is no failure of anything."""
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": about["namespace"], "name": f"{about['name']}.{uuid.uuid4().hex[:16]}"},
        "involvedObject": {"apiVersion": API_VERSION, **about},
        "type": kind,
        "reason": reason,
        "message": message[:MESSAGE_LIMIT],
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": "swe-rl-operator"},
    }
    try:
        await api.create("events", body)
    except OperatorError:
        return
