"""List and watch of one kind of objects, for ever, in a thread of its own."""

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.api import ApiClient, Unreachable

Json = Mapping[str, Any]
Key = tuple[str, str]  # namespace, '' for what has none, and name
_WATCH_SECONDS = 300


@dataclass(frozen=True)
class Listed:
    """All objects of a kind."""

    kind: str
    objects: dict[Key, Any]


@dataclass(frozen=True)
class Changed:
    """One object; None when it is gone or irrelevant."""

    kind: str
    key: Key
    value: Any


class ObjectWatch(threading.Thread):
    """Puts Listed and Changed events on `events`; after any failure it lists again, so nothing is missed."""

    def __init__(
        self, api: ApiClient, kind: str, path: str, parse: Callable[[Json], Any], events: "queue.Queue[Any]"
    ) -> None:
        super().__init__(daemon=True, name=f"watch-{kind}")
        self._api, self._kind, self._path, self._parse, self._events = api, kind, path, parse, events

    def run(self) -> None:
        while True:
            try:
                self._list_and_watch()
            except (Unreachable, ValueError, KeyError) as error:
                print(f"{self._kind}: {error}", file=sys.stderr, flush=True)
                time.sleep(1)

    def _list_and_watch(self) -> None:
        page = self._api.get(self._path, timeout=30)
        taken = {_key(item): self._parse(item) for item in page["items"]}
        self._events.put(Listed(self._kind, {key: value for key, value in taken.items() if value is not None}))
        version = page["metadata"]["resourceVersion"]
        while version:
            version = self._watch(version)

    def _watch(self, version: str) -> str | None:
        """Events until the server ends the stream; the version to go on from, None to list again."""
        parameters = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        for line in self._api.lines(self._path, parameters, timeout=_WATCH_SECONDS + 30):
            event = json.loads(line)
            item = event["object"]
            if event["type"] == "ERROR":
                return None
            version = item["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                deleted = event["type"] == "DELETED"
                self._events.put(Changed(self._kind, _key(item), None if deleted else self._parse(item)))
        return version


def _key(item: Json) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
