"""The job of a Ray Pod that leaves its node is reconciled at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import pytest
from swerl_kube import Event, Unreachable
from swerl_operator.jobs.disruptions import RAY_PODS, DisruptionWatch
from swerl_operator.workqueue import ObjectKey

EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}


class WatchedPods:
    """A KubeClient whose watch has these events and then fails."""

    def __init__(self, *events: Event) -> None:
        self._events = events
        self.watched: list[tuple[str | None, str]] = []

    async def watch(self, api: str, resource: str, namespace: str | None, *, labels: str) -> AsyncIterator[Event]:
        self.watched.append((namespace, labels))
        for event in self._events:
            yield event
        raise Unreachable("GET /api/v1/pods: no route to host")


def change(kind: Literal["ADDED", "MODIFIED", "DELETED"], *conditions: dict[str, str]) -> Event:
    metadata = {"namespace": "n", "name": "demo-1-train-worker-x", "labels": {"swerl.dev/job": "demo"}}
    return Event(kind, {"metadata": metadata, "status": {"phase": "Running", "conditions": list(conditions)}})


async def disrupted(pods: Any, namespaces: Sequence[str] = ()) -> list[ObjectKey]:
    """What a watch of these Pods reports until it fails."""
    jobs: list[ObjectKey] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await DisruptionWatch(pods, namespaces, jobs.append).run()
    return jobs


async def test_evicted_pod_names_its_job() -> None:
    assert await disrupted(WatchedPods(change("ADDED"), change("MODIFIED", EVICTED))) == [("n", "demo")]


@pytest.mark.parametrize("event", [change("ADDED"), change("DELETED", EVICTED), change("DELETED")])
async def test_other_changes_name_none(event: Event) -> None:
    assert await disrupted(WatchedPods(event)) == []


async def test_each_served_namespace_is_watched() -> None:
    pods = WatchedPods()
    await disrupted(pods, ["a", "b"])
    assert pods.watched == [("a", RAY_PODS), ("b", RAY_PODS)]
