"""Grading Pods as one process sees them: one shared watch for all Jobs of a Grader, and a Pod's log as it grows.

Guarantee: however many Jobs run, there is one watch; every subscriber gets each state of its Job's Pod, or the error
that ended the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from swerl_kube import KubeClient, KubeError
from swerl_kube.pod_loss import container_status, disruption, end_loss

from .manifests import CONTAINER

JOB_LABEL = "batch.kubernetes.io/job-name"
LOG_IDLE_TIMEOUT = 300.0  # seconds without a byte after which a followed log is opened again


@dataclass(frozen=True)
class PodState:
    """One state of a grading Pod."""

    name: str
    image: str  # of its container, as the node resolved it; empty before there is one
    started: bool  # its log can be read
    ended: bool  # it will write no more
    reason: str  # why it waits or ended, as Kubernetes says: ImagePullBackOff, OOMKilled, Evicted, ...
    message: str
    disruption: str = ""  # why the cluster takes it from its node; empty while it does not
    loss: str = ""  # a `SandboxReason`: why it ended, by the table of `pod_loss`; empty before its end

    @classmethod
    def of(cls, pod: dict[str, Any], *, deleted: bool) -> PodState:
        """State of a Pod object; `deleted` when it is gone."""
        status = pod.get("status") or {}
        container = container_status(status, CONTAINER)
        state: dict[str, Any] = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        failed = status.get("phase") in ("Failed", "Succeeded")
        sources = [status, ended, waiting, _not_scheduled(status)]
        target = disruption(status)
        over = deleted or failed or bool(ended)
        reason = next((text for source in sources if (text := source.get("reason"))), "")
        return cls(
            name=pod["metadata"]["name"],
            image=container.get("imageID") or "",
            started=bool(state.get("running") or ended),
            ended=over,
            reason="Deleted" if deleted and not reason else reason,
            message=next((text for source in sources if (text := source.get("message"))), ""),
            disruption=f"{target.cause}: {target.message}" if target else "",
            loss=end_loss(status, CONTAINER).reason if over else "",
        )


def _not_scheduled(status: dict[str, Any]) -> dict[str, Any]:
    """The condition of a Pod that no node has taken; empty for any other."""
    conditions = status.get("conditions") or []
    return next((c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"), {})


class PodWatch:
    """The shared watch; `selector` picks the Pods of one Grader."""

    def __init__(self, client: KubeClient, namespace: str, selector: str) -> None:
        self._client, self._namespace, self._selector = client, namespace, selector
        self._queues: dict[str, asyncio.Queue[PodState | KubeError]] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def subscribe(self, job: str) -> Iterator[asyncio.Queue[PodState | KubeError]]:
        """States of the Pod of Job `job`, from now on; subscribe before the Job exists."""
        queue: asyncio.Queue[PodState | KubeError] = asyncio.Queue()
        self._queues[job] = queue
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow(), name=f"watch of grading Pods in {self._namespace}")
        try:
            yield queue
        finally:
            del self._queues[job]

    async def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            async for event in self._client.watch("v1", "pods", self._namespace, labels=self._selector):
                queue = self._queues.get(event.object["metadata"].get("labels", {}).get(JOB_LABEL, ""))
                if queue is not None:
                    queue.put_nowait(PodState.of(event.object, deleted=event.type == "DELETED"))
        except KubeError as error:
            for queue in self._queues.values():
                queue.put_nowait(error)


def follow_log(client: KubeClient, namespace: str, pod: str) -> AsyncIterator[bytes]:
    """The grading container's log from its start, as it grows, until the container ends. Raises KubeError."""
    return client.follow_logs(namespace, pod, container=CONTAINER, silence=LOG_IDLE_TIMEOUT)
