"""Events about our objects, as `kubectl describe` shows them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Literal

from .base import API_VERSION

MESSAGE_LIMIT = 1000  # characters; the API server takes 1024
EventType = Literal["Normal", "Warning"]


def event_body(
    involved: Mapping[str, str],
    *,
    type: EventType,
    reason: str,
    message: str,
    time: str | None,
    component: str,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """An Event about `involved` (kind, namespace, name, uid), at `time` (RFC 3339), from `component`."""
    metadata = {"namespace": involved["namespace"], "name": f"{involved['name']}.{uuid.uuid4().hex[:16]}"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata | ({"labels": dict(labels)} if labels else {}),
        "involvedObject": {"apiVersion": API_VERSION, **involved},
        "type": type,
        "reason": reason,
        "message": message[:MESSAGE_LIMIT],
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": component},
    }
