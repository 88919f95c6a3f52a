"""Pods as their watch shows them, for the ways that make their own and for the end of every sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from swerl_agent.sandbox.pod import ready
from swerl_kube import KubeClient

Json = dict[str, Any]
PATIENCE = 600.0  # seconds


class PodWatch:
    """All Pods of a namespace by name, from one watch that all trajectories share."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._pods: dict[str, Json] = {}
        self._changed = asyncio.Condition()

    async def follow(self) -> None:
        """Follow the namespace until cancelled."""
        async for event in self._client.watch("v1", "pods", self._namespace):
            async with self._changed:
                if event.type == "DELETED":
                    self._pods.pop(event.object["metadata"]["name"], None)
                else:
                    self._pods[event.object["metadata"]["name"]] = event.object
                self._changed.notify_all()

    async def ready(self, name: str) -> Json:
        """The Pod as soon as it is Ready."""
        await self._until(lambda: name in self._pods and ready(self._pods[name]))
        return self._pods[name]

    async def gone(self, name: str) -> None:
        """Wait until the API server has no such Pod, which this watch has shown."""
        await self._until(lambda: name not in self._pods)

    async def _until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(done)


@asynccontextmanager
async def watched_pods(client: KubeClient, namespace: str) -> AsyncIterator[PodWatch]:
    """The Pods of `namespace` for as long as the context lasts."""
    pods = PodWatch(client, namespace)
    following = asyncio.create_task(pods.follow())
    try:
        yield pods
    finally:
        following.cancel()
        await asyncio.wait([following])
