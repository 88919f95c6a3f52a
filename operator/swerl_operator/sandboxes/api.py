"""The API calls for sandboxes. Each method makes one request (a list: one per page); writes are counted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Any

from swerl_api import names
from swerl_api.base import API_VERSION
from swerl_api.conditions import Condition, SandboxReason
from swerl_api.event_body import EventType
from swerl_api.isolation import ProbeTarget, endpoint_addresses
from swerl_kube import Conflict, Forbidden, Json, KubeClient, NotFound, resource_path

from .. import events
from ..times import format_time
from ..workqueue import ObjectKey
from .kueue import queue_message
from .metrics import SandboxMetrics
from .parsed import ParsedGroup, ParsedPod
from .store import GroupRecord

SANDBOXES = "swesandboxes"
METRICS = "metrics.k8s.io/v1beta1"
PULL_EVENTS = (
    f"reason=Pulled,involvedObject.kind=Pod,involvedObject.fieldPath=spec.containers{{{names.SANDBOX_CONTAINER}}}"
)
EVENTS_WATCH_SECONDS = 60  # length of a watch of Events: it has no bookmarks to show that it is alive
EXEC_SECONDS = 30.0  # for one run of the isolation check
PAGE = 100  # objects per list request; a bigger page costs memory that the process never returns


class WatchedKind(Enum):
    """The kinds that the informer lists and watches."""

    GROUPS = (API_VERSION, SANDBOXES, "")
    PODS = ("v1", "pods", names.SANDBOX_LABEL)

    @property
    def resource(self) -> tuple[str, str]:
        """apiVersion and resource name."""
        return self.value[:2]

    @property
    def labels(self) -> str:
        """Selector."""
        return self.value[2]


class SandboxApi:
    """The requests of the sandbox controller."""

    def __init__(self, api: KubeClient, metrics: SandboxMetrics) -> None:
        self._api = api
        self._writes = metrics.writes

    def pages(self, kind: WatchedKind, namespace: str | None) -> AsyncIterator[tuple[list[Json], int]]:
        """All objects of a kind, page by page, with the resourceVersion of the list."""
        return self._pages(resource_path(*kind.resource, namespace), kind.labels)

    def events(self, kind: WatchedKind, namespace: str | None, version: int) -> AsyncIterator[tuple[str, Json]]:
        """The watch events of a kind after `version`; raises Expired when the version is too old."""
        return self._api.stream(resource_path(*kind.resource, namespace), version, labels=kind.labels)

    async def _pages(self, url: str, labels: str) -> AsyncIterator[tuple[list[Json], int]]:
        # Without resourceVersion the list is consistent: a stale one could miss Pods that exist.
        query = {"limit": str(PAGE), "labelSelector": labels}
        while True:
            page = await self._api.request("GET", url, query=query)
            yield page.get("items") or [], int(page["metadata"]["resourceVersion"])
            query["continue"] = page["metadata"].get("continue") or ""
            if not query["continue"]:
                return

    async def usage(self, namespace: str | None) -> list[Json] | None:
        """Recent resource usage of every sandbox Pod; None where the cluster has no metrics API."""
        try:
            found = await self._api.request(
                "GET", resource_path(METRICS, "pods", namespace), query={"labelSelector": names.SANDBOX_LABEL}
            )
        except (NotFound, Forbidden):
            return None
        return list(found.get("items") or ())

    async def events_version(self, namespace: str | None) -> int:
        """The present resourceVersion of Events."""
        page = await self._api.request("GET", resource_path("v1", "events", namespace), query={"limit": "1"})
        return int(page["metadata"]["resourceVersion"])

    def pull_events(self, namespace: str | None, version: int) -> AsyncIterator[tuple[str, Json]]:
        """The kubelets' Events about images that are present, after `version`; raises Expired as `events` does."""
        url = resource_path("v1", "events", namespace)
        return self._api.stream(url, version, fields=PULL_EVENTS, seconds=EVENTS_WATCH_SECONDS)

    async def queue_message(self, record: GroupRecord) -> str:
        """Why the queue that holds the group's Pods does not admit them; '' when none holds them."""
        return await queue_message(record, self._api)

    async def pod(self, namespace: str, name: str) -> Json | None:
        """One Pod, or None."""
        return await self._api.find("v1", "pods", namespace, name)

    async def lease(self, lease: ObjectKey) -> Json | None:
        """One Lease, or None."""
        return await self._api.find("coordination.k8s.io/v1", "leases", *lease)

    async def api_addresses(self) -> list[ProbeTarget]:
        """The addresses of the API server's endpoints; empty without the permission to read them."""
        try:
            return endpoint_addresses(
                await self._api.get("discovery.k8s.io/v1", "endpointslices", "default", "kubernetes")
            )
        except (NotFound, Forbidden):
            return []

    async def exec_output(self, pod: ParsedPod, command: Sequence[str]) -> str:
        """The output of a command in a sandbox; raises as `KubeClient.exec_output` does."""
        found = await self._api.exec_output(
            pod.namespace, pod.name, command, container=names.SANDBOX_CONTAINER, seconds=EXEC_SECONDS
        )
        return found.decode(errors="replace")

    async def create_pod(self, manifest: dict[str, Any]) -> Json:
        """The created Pod; raises Conflict when the name is in use."""
        self._writes.labels(verb="create_pod").inc()
        return await self._api.create("pods", manifest)

    async def delete_pod(self, namespace: str, pod: ParsedPod) -> None:
        """Delete exactly this Pod at once; a Pod that is gone, or replaced by one of the same name, is not an error."""
        self._writes.labels(verb="delete_pod").inc()
        with contextlib.suppress(Conflict):
            await self._api.delete("v1", "pods", namespace, pod.name, grace_seconds=0, uid=pod.uid)

    async def patch_status(self, group: ParsedGroup, status: dict[str, Any]) -> Json | None:
        """The group after the write; None when it is gone."""
        self._writes.labels(verb="patch_status").inc()
        # The UID in a merge patch is a precondition: a newer group of the same name is not patched.
        body = {"metadata": {"uid": group.uid}, "status": status}
        try:
            return await self._api.patch(API_VERSION, SANDBOXES, *group.key, body, subresource="status")
        except (NotFound, Conflict):
            return None

    async def post_event(self, group: ParsedGroup, condition: Condition) -> None:
        """An Event about a condition of this group."""
        involved_object = {"kind": "SweSandbox", "namespace": group.key[0], "name": group.key[1], "uid": group.uid}
        now = format_time(time.time())  # the condition's own time is that of its status, not of its reason
        intended = condition.reason == SandboxReason.SCHEDULING_GATED  # by the controller of the gates
        type: EventType = "Normal" if intended else "Warning"
        await events.post(self._api, involved_object, type, condition.reason, condition.message, now)

    async def delete_group(self, group: ParsedGroup) -> None:
        """Delete exactly this group; the garbage collector deletes its Pods."""
        self._writes.labels(verb="delete_group").inc()
        with contextlib.suppress(Conflict):
            await self._api.delete(API_VERSION, SANDBOXES, *group.key, uid=group.uid)
