"""What the kubelets' Events say of image pulls, and that nothing which happens to a watch of them loses the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from swerl_kube import Expired, Unavailable
from swerl_operator.sandboxes.image_pulls import PullWatcher, pull_seconds
from swerl_operator.sandboxes.parsed import ParsedGroup, ParsedPod
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.sandboxes.store import GroupStore

SETTINGS = SandboxSettings(watch_reopen=0.0, events_retry=0.0)


@pytest.mark.parametrize(
    ("message", "took"),
    [
        ('Successfully pulled image "r/task:1" in 1.234s', 1.234),
        ('Successfully pulled image "r/task:1" in 1.2s (2.5s including waiting)', 2.5),
        ('Successfully pulled image "r/task:1" in 350ms (350ms including waiting). Image size: 12 bytes.', 0.35),
        ('Successfully pulled image "r/task:1" in 1m2.5s (1m2.5s including waiting). Image size: 12 bytes.', 62.5),
        ('Container image "r/task:1" already present on machine', 0.0),
        ('Container image "r/task:1" already present on machine and can be accessed by the pod', 0.0),
        ("", None),
    ],
)
def test_pull_seconds_are_parsed_from_the_kubelets_message(message: str, took: float | None) -> None:
    assert pull_seconds(message) == (None if took is None else pytest.approx(took))


class Events:
    """Watches that yield the Events of `streams`, one stream after the other, and raise the errors there."""

    def __init__(self, *streams: list[tuple[str, dict[str, Any]] | Exception]) -> None:
        self.streams = list(streams)
        self.opened: list[int] = []
        self.exhausted = asyncio.Event()

    async def events_version(self, namespace: str | None) -> int:
        return 7

    async def pull_events(self, namespace: str | None, version: int) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self.opened.append(version)
        if not self.streams:
            self.exhausted.set()
            await asyncio.Event().wait()
        for event in self.streams.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


def pulled(pod: str, version: int, kind: str = "ADDED") -> tuple[str, dict[str, Any]]:
    message = f'Successfully pulled image "r/task:1" in {version}s'
    meta = {"resourceVersion": str(version)}
    return kind, {"metadata": meta, "involvedObject": {"uid": pod}, "message": message}


async def test_watch_resumes_at_its_version_or_starts_over_when_that_is_gone(
    group: Callable[..., ParsedGroup], pod: Callable[..., ParsedPod]
) -> None:
    store = GroupStore()
    record = store.put_group(group())
    assert record is not None
    for ordinal in range(3):
        store.put_pod("uid-g", pod(ordinal))
    events = Events(
        [pulled("pod-g-0", 11), pulled("pod-g-0", 12, "DELETED"), pulled("somebody-elses", 13)],
        [Unavailable("the stream broke")],
        [Expired("WATCH", 410, "Expired", "too old")],
        [pulled("pod-g-1", 14)],
    )
    listening = asyncio.create_task(PullWatcher(events, store, SETTINGS, []).run())  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        await events.exhausted.wait()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    assert record.pulls == {"pod-g-0": 11.0, "pod-g-1": 14.0}
    assert events.opened == [7, 13, 13, 7, 14]
