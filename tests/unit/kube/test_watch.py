"""The endless watch over streams that end, expire and break."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from swerl_kube import Event, Expired, Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from swerl_kube.watch import WatchSettings, follow, relist

Json = dict[str, Any]


def make_object(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


class ScriptedSource:
    """A source that plays lists and streams; a stream ends by EOF, or raises its last item."""

    def __init__(self, lists: list[Json], streams: list[list[Json | KubeError]]) -> None:
        self.lists, self.streams = lists, streams
        self.calls: list[str] = []

    async def list(self) -> Json:
        self.calls.append("list")
        return self.lists.pop(0)

    async def stream(self, version: str) -> AsyncIterator[Json]:
        self.calls.append(version)
        for item in self.streams.pop(0):
            if isinstance(item, KubeError):
                raise item
            yield item


def listing(version: int, *items: Json) -> Json:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def change(kind: str, item: Json) -> Json:
    return {"type": kind, "object": item}


async def replay(script: ScriptedSource, *, refused_window: float = 0.0) -> list[tuple[str, str]]:
    """Events until the script refuses access."""
    events: list[tuple[str, str]] = []
    settings = WatchSettings(first_pause=0.001, longest_pause=0.01, refused_window=refused_window)
    with pytest.raises(Forbidden):
        async for event in follow(script, settings):
            events.append((event.type, event.object["metadata"]["name"]))
    return events


STOP = Forbidden("WATCH", 403, "Forbidden", "end of script")


async def test_stream_resumes_after_a_clean_end() -> None:
    script = ScriptedSource(
        [listing(5, make_object("a", 3))],
        [
            [change("MODIFIED", make_object("a", 6)), change("BOOKMARK", make_object("", 9))],
            [change("ADDED", make_object("b", 10)), STOP],
        ],
    )
    assert await replay(script) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b")]
    assert script.calls == ["list", "5", "9"]


async def test_expired_version_means_list_again_without_repeats() -> None:
    script = ScriptedSource(
        [
            listing(5, make_object("a", 1), make_object("b", 2), make_object("c", 3)),
            listing(20, make_object("b", 2), make_object("c", 15)),
        ],
        [[Expired("WATCH", 410, "Expired", "too old")], [STOP]],
    )
    events = await replay(script)
    assert events[:3] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    assert events[3:] == [("DELETED", "a"), ("MODIFIED", "c")]
    assert script.calls == ["list", "5", "list", "20"]


async def test_broken_connection_is_opened_again() -> None:
    script = ScriptedSource(
        [listing(5)], [[Unreachable("reset")], [change("ADDED", make_object("a", 7)), Unreachable("reset")], [STOP]]
    )
    assert await replay(script) == [("ADDED", "a")]
    assert script.calls == ["list", "5", "5", "7"]


async def test_restarted_server_may_refuse_for_a_while() -> None:
    missing = NotFound("WATCH", 404, "NotFound", "")
    refusals: list[KubeError] = [Unauthorized("WATCH", 401, "Unauthorized", ""), missing, STOP]
    later_changes = [change("ADDED", make_object("b", 6))]
    script = ScriptedSource(
        [listing(5, make_object("a", 3))], [[], *([one] for one in refusals), later_changes, *[[STOP]] * 1000]
    )
    assert await replay(script, refused_window=0.2) == [("ADDED", "a"), ("ADDED", "b")]
    assert script.calls[:7] == ["list", "5", "5", "5", "5", "5", "6"]


async def test_refusal_before_the_first_list_ends_the_watch_at_once() -> None:
    class Closed(ScriptedSource):
        async def list(self) -> Json:
            raise STOP

    assert await replay(Closed([], []), refused_window=60.0) == []


def test_recreated_object_is_deleted_and_added() -> None:
    old, new = make_object("a", 1), {"metadata": {"name": "a", "uid": "other", "resourceVersion": "9"}}
    cached = {"a": old}
    assert relist(cached, [new]) == [Event("DELETED", old), Event("ADDED", new)]
    assert cached == {"other": new}
