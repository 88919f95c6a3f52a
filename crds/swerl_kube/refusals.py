"""What Events report that no status does, such as why admission refuses the Pods of a Job."""

from __future__ import annotations

from .client import KubeClient
from .errors import Forbidden
from .transport import Json


async def pod_refusal(client: KubeClient, namespace: str, job: str, *, since: str = "") -> str | None:
    """The API server's message of the newest refusal of a Pod of Job `job`, unless it is older than `since` (RFC 3339).

    It may be a quota, a LimitRange, Pod Security or a webhook. None when there is none, or Events may not be read.
    """
    fields = f"involvedObject.kind=Job,involvedObject.name={job},reason=FailedCreate"
    try:
        return await newest_event(client, namespace, fields, since=since)
    except Forbidden:
        return None


async def newest_event(client: KubeClient, namespace: str, fields: str, *, since: str = "") -> str | None:
    """The message of the newest Event that the field selector `fields` matches, if it is not older than `since`."""
    events = await client.list("v1", "events", namespace, fields=fields)
    newest = max(events, key=_last_seen, default=None)
    return None if newest is None or _last_seen(newest) < since else str(newest.get("message") or "")


def _last_seen(event: Json) -> str:
    return str(event.get("lastTimestamp") or "")
