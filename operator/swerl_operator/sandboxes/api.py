"""The API calls of the sandbox plane, each counted. One method, one request (a list: one per page)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Any, Literal

from swerl_api import names
from swerl_api.base import API_VERSION
from swerl_api.conditions import Condition, SandboxReason
from swerl_api.isolation import Target, behind

from .. import events
from ..errors import Conflict, Forbidden, NotFound
from ..kube import Kube, Object, path
from .decide import View
from .kueue import with_queue_words
from .metrics import SandboxMetrics
from .parsed import Group, Key, Pod, timestamp

SANDBOXES = "swesandboxes"
METRICS = "metrics.k8s.io/v1beta1"
PULLED = f"reason=Pulled,involvedObject.kind=Pod,involvedObject.fieldPath=spec.containers{{{names.SANDBOX_CONTAINER}}}"
EVENTS_SECONDS = 60  # that a watch of Events may last: it has no bookmarks, so silence is no sign that it broke
PAGE = 100  # objects per list request; what a bigger one takes when it is parsed, the process keeps for good


class Collection(Enum):
    """What is listed and watched."""

    GROUPS = (API_VERSION, SANDBOXES, "")
    PODS = ("v1", "pods", names.SANDBOX_LABEL)

    @property
    def place(self) -> tuple[str, str]:
        """apiVersion and resource."""
        return self.value[:2]

    @property
    def labels(self) -> str:
        """Selector."""
        return self.value[2]


class Cluster:
    """What the controller asks of the API server."""

    def __init__(self, api: Kube, metrics: SandboxMetrics) -> None:
        self._api = api
        self._writes = metrics.writes

    def pages(self, collection: Collection, namespace: str | None) -> AsyncIterator[tuple[list[Object], int]]:
        """Every object of a collection, page by page, and the resourceVersion of the list."""
        return self._pages(path(*collection.place, namespace), collection.labels)

    def events(self, collection: Collection, namespace: str | None, version: int) -> AsyncIterator[tuple[str, Object]]:
        """What happened to a collection after `version`; raises Gone when that is too long ago."""
        return self._api.watch(path(*collection.place, namespace), version, labels=collection.labels)

    async def _pages(self, url: str, labels: str) -> AsyncIterator[tuple[list[Object], int]]:
        # Without resourceVersion the list is consistent: one that lags behind could hide Pods that exist.
        query = {"limit": str(PAGE), "labelSelector": labels}
        while True:
            page = await self._api.request("GET", url, query=query)
            yield page.get("items") or [], int(page["metadata"]["resourceVersion"])
            query["continue"] = page["metadata"].get("continue") or ""
            if not query["continue"]:
                return

    async def usage(self, namespace: str | None) -> list[Object] | None:
        """Recent resource usage of every sandbox Pod; None where the cluster has no metrics API."""
        try:
            found = await self._api.request(
                "GET", path(METRICS, "pods", namespace), query={"labelSelector": names.SANDBOX_LABEL}
            )
        except (NotFound, Forbidden):
            return None
        return list(found.get("items") or ())

    async def events_version(self, namespace: str | None) -> int:
        """The resourceVersion up to which Events have been told."""
        page = await self._api.request("GET", path("v1", "events", namespace), query={"limit": "1"})
        return int(page["metadata"]["resourceVersion"])

    def pulls(self, namespace: str | None, version: int) -> AsyncIterator[tuple[str, Object]]:
        """The kubelets' Events, after `version`, that a sandbox's image is there; raises Gone as `events` does."""
        url = path("v1", "events", namespace)
        return self._api.watch(url, version, fields=PULLED, seconds=EVENTS_SECONDS)

    async def hear(self, view: View) -> View:
        """`view` with what the queue says that holds its Pods, if one does."""
        return await with_queue_words(view, self._api)

    async def pod(self, namespace: str, name: str) -> Object | None:
        """One Pod, or None."""
        return await self._api.find("v1", "pods", namespace, name)

    async def lease(self, lease: Key) -> Object | None:
        """One Lease, or None."""
        return await self._api.find("coordination.k8s.io/v1", "leases", *lease)

    async def api_addresses(self) -> list[Target]:
        """Where the API server listens behind its service; empty without the right to know."""
        try:
            return behind(await self._api.get("discovery.k8s.io/v1", "endpointslices", "default", "kubernetes"))
        except (NotFound, Forbidden):
            return []

    async def output(self, pod: Pod, command: Sequence[str]) -> str:
        """What a command in a sandbox prints; raises as `Kube.output` does."""
        found = await self._api.output(pod.namespace, pod.name, names.SANDBOX_CONTAINER, command)
        return found.decode(errors="replace")

    async def create_pod(self, manifest: dict[str, Any]) -> Object:
        """Raises Conflict when the name is taken."""
        self._writes.labels(verb="create_pod").inc()
        return await self._api.create("pods", manifest)

    async def delete_pod(self, namespace: str, pod: Pod) -> None:
        """Remove this very Pod at once; one that is gone, or replaced by its namesake, is no error."""
        self._writes.labels(verb="delete_pod").inc()
        with contextlib.suppress(Conflict):
            await self._api.delete("v1", "pods", namespace, pod.name, grace=0, uid=pod.uid)

    async def patch_status(self, group: Group, status: dict[str, Any]) -> Object | None:
        """The group after the write; None when it is gone."""
        self._writes.labels(verb="patch_status").inc()
        # The UID in a merge patch is a precondition: a namesake created since is not written to.
        body = {"metadata": {"uid": group.uid}, "status": status}
        try:
            return await self._api.patch(API_VERSION, SANDBOXES, *group.key, body, sub="status")
        except (NotFound, Conflict):
            return None

    async def tell(self, group: Group, condition: Condition) -> None:
        """An Event about news of this group."""
        about = {"kind": "SweSandbox", "namespace": group.key[0], "name": group.key[1], "uid": group.uid}
        when = timestamp(time.time())  # the condition's own time is that of its status, not of its reason
        kind: Literal["Normal", "Warning"] = "Warning"
        if condition.reason == SandboxReason.SCHEDULING_GATED:  # as intended, by whoever put the gates there
            kind = "Normal"
        await events.post(self._api, about, kind, condition.reason, condition.message, when)

    async def delete_group(self, group: Group) -> None:
        """Delete this very group; its Pods follow by their ownerReference."""
        self._writes.labels(verb="delete_group").inc()
        with contextlib.suppress(Conflict):
            await self._api.delete(API_VERSION, SANDBOXES, *group.key, uid=group.uid)
