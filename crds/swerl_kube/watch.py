"""List and watch without end.

Guarantees: the consumer sees every object that exists and then every change, in order per object. A stream that
ends (EOF, 410, reset, a restarted API server) is opened again from the last seen version. If that version has expired,
a new list comes first. An object that vanished unseen between two lists is reported as DELETED; an unchanged object
is not reported twice. Permission and bad-request errors end the iteration: at once if the server never served a
list, else after a while. A restarted API server does not know its roles at first.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .errors import BadRequest, Expired, Forbidden, KubeError, NotFound, Unauthorized
from .retry_after import pause_after
from .transport import Transport

Json = dict[str, Any]
SERVER_TIMEOUT = 300  # seconds after which the server is asked to end a watch
FATAL = (BadRequest, Forbidden, NotFound, Unauthorized)


@dataclass(frozen=True)
class WatchSettings:
    """How a watch is repeated, in seconds."""

    first_pause: float = 0.1  # before the next request to a server that does not answer; doubled each time
    longest_pause: float = 5.0
    refused_window: float = 60.0  # for which a server that has served before may refuse


WATCH_SETTINGS = WatchSettings()


@dataclass(frozen=True)
class Event:
    """One change; `object` is the whole object after it (for DELETED: as last seen)."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Json


class EventSource(Protocol):
    """Where lists and watch streams come from."""

    async def list(self) -> Json: ...

    def stream(self, version: str) -> AsyncIterator[Json]:
        """Raw watch events from `version` on; returns at EOF, raises KubeError."""
        ...


def watch(client: Transport, path: str, query: Mapping[str, str]) -> AsyncIterator[Event]:
    """Events of one collection."""
    return follow(_Http(client, path, query))


async def follow(source: EventSource, settings: WatchSettings = WATCH_SETTINGS) -> AsyncIterator[Event]:
    """The state machine of the module's guarantees over any source."""
    known: dict[str, Json] = {}
    version, pause = "", settings.first_pause
    served, refused_since = False, math.inf
    while True:
        failure = KubeError()
        try:
            if not version:
                listing = await source.list()
                for event in relist(known, listing.get("items") or []):
                    yield event
                version = listing["metadata"]["resourceVersion"]
                served = True
            async with aclosing(source.stream(version)) as stream:  # type: ignore[type-var]
                async for raw in stream:
                    pause, refused_since = settings.first_pause, math.inf
                    version = raw["object"]["metadata"]["resourceVersion"]
                    if raw["type"] != "BOOKMARK":
                        yield _apply(known, raw)
            refused_since = math.inf
        except FATAL:
            refused_since = min(refused_since, time.monotonic())
            if not served or time.monotonic() - refused_since >= settings.refused_window:
                raise
        except Expired:
            version = ""
            continue
        except KubeError as error:
            failure = error
        await asyncio.sleep(pause_after(failure, pause * random.uniform(0.5, 1.0)))
        pause = min(pause * 2, settings.longest_pause)


def relist(known: dict[str, Json], items: list[Json]) -> list[Event]:
    """Bring `known` (by uid) to the listed state and return what changed, vanished objects first."""
    listed = {item["metadata"]["uid"]: item for item in items}
    events = [Event("DELETED", known.pop(uid)) for uid in list(known) if uid not in listed]
    for uid, item in listed.items():
        before = known.get(uid)
        if before is None:
            events.append(Event("ADDED", item))
        elif before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            events.append(Event("MODIFIED", item))
        known[uid] = item
    return events


def _apply(known: dict[str, Json], raw: Json) -> Event:
    item: Json = raw["object"]
    uid = item["metadata"]["uid"]
    if raw["type"] == "DELETED":
        known.pop(uid, None)
        return Event("DELETED", item)
    kind: Literal["ADDED", "MODIFIED"] = "MODIFIED" if uid in known else "ADDED"
    known[uid] = item
    return Event(kind, item)


class _Http:
    def __init__(self, client: Transport, path: str, query: Mapping[str, str]) -> None:
        self._client, self._path, self._query = client, path, query

    async def list(self) -> Json:
        answer: Json = json.loads(await self._client.read(self._path, self._query))
        return answer

    def stream(self, version: str) -> AsyncIterator[Json]:
        return self._client.events(self._path, stream_query(version, self._query, SERVER_TIMEOUT))


def stream_query(version: str, selectors: Mapping[str, str], seconds: int) -> dict[str, str]:
    """Query of a watch that starts after `version` and that the server ends after `seconds`."""
    return dict(selectors) | {
        "watch": "1",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
    }
