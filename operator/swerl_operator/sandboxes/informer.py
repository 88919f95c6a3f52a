"""The informer: lists and watches SweSandboxes, their Pods and Leases, updates the store, and enqueues groups.

Guarantees: no reconciliation starts before groups and Pods were listed; a watch resumes from its last version after
EOF, a time-out or a restart of the API server; a list follows when that version is gone, and at intervals; the store
keeps parsed objects only, and at most one page of raw objects is in memory at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from swerl_kube import Expired, KubeError, pause_after

from ..workqueue import ObjectKey
from .api import SandboxApi, WatchedKind
from .isolation_check import IsolationChecker
from .leases import LeaseState
from .parsed import ParsedPod, owner_uid, parse_group, parse_pod
from .reconciler import SandboxReconciler
from .settings import SandboxSettings
from .store import GroupRecord

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 3.0  # for the last status writes of an orderly end
POLICY_SECONDS = 10.0  # between two reconciliations of the NetworkPolicies


class SandboxInformer:
    """Enqueues groups in `reconciler`; `namespaces` are those served, empty for all."""

    def __init__(
        self,
        api: SandboxApi,
        reconciler: SandboxReconciler,
        isolation_checker: IsolationChecker,
        settings: SandboxSettings,
        namespaces: Sequence[str],
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._is_leader = is_leader
        self._api = api
        self._reconciler = reconciler
        self._isolation_checker = isolation_checker
        self._store = reconciler.store
        self._settings = settings
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._synced = False
        self._versions: dict[tuple[WatchedKind, str | None], int] = {}  # up to which events are processed

    def on_group_event(self, event_type: str, body: dict[str, Any]) -> None:
        """A watch event of a SweSandbox."""
        if event_type == "DELETED":
            self._on_group_deleted(str(body["metadata"]["uid"]))
        else:
            self._enqueue(self._store.put_group(parse_group(body)))

    def on_pod_event(self, event_type: str, body: dict[str, Any]) -> None:
        """A watch event of a sandbox Pod; Pods that no SweSandbox controls are ignored."""
        owner, pod = owner_uid(body), parse_pod(body)
        if owner is None or pod is None:
            return
        if event_type == "DELETED":
            self._on_pod_deleted(pod)
            return
        record = self._store.put_pod(owner, pod)
        if record is not None:
            self._reconciler.pod_changed(record, pod)
            self._isolation_checker.request(record, pod)
            self._enqueue(record)

    async def run(self) -> None:
        """Work until cancelled."""
        while not self._synced:
            await self._try_sync()
            if not self._synced:
                await asyncio.sleep(self._settings.list_retry)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reconciler.queue.run(), name="sandbox workers")
                tasks.create_task(self._watch_leases(), name="sandbox leases")
                tasks.create_task(self._resync(), name="sandbox resync")
                tasks.create_task(self._reconcile_policies(), name="sandbox policies")
                for kind, namespace in list(self._versions):
                    tasks.create_task(self._watch(kind, namespace), name=f"watch {kind.name.lower()}")
        finally:
            self._synced = False
            if self._is_leader():  # otherwise the new leader writes
                with contextlib.suppress(KubeError, TimeoutError):
                    async with asyncio.timeout(FLUSH_SECONDS):
                        await self._reconciler.flush()
                        await self._reconciler.reconcile_policies(self._namespaces, idle=0)

    async def _watch(self, kind: WatchedKind, namespace: str | None) -> None:
        handle = self.on_group_event if kind is WatchedKind.GROUPS else self.on_pod_event
        while True:
            try:
                since = self._versions[kind, namespace]
                async for event_type, body in self._api.events(kind, namespace, since):
                    if event_type != "BOOKMARK":
                        handle(event_type, body)
                    self._versions[kind, namespace] = int(body["metadata"]["resourceVersion"])
            except Expired:
                await self._try_sync()
            except KubeError as error:
                logger.warning("%s", error)
                await asyncio.sleep(pause_after(error, self._settings.watch_retry))
            await asyncio.sleep(self._settings.watch_reopen)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync)
            await self._try_sync()

    async def _reconcile_policies(self) -> None:
        while True:
            await asyncio.sleep(POLICY_SECONDS)
            try:
                await self._reconciler.reconcile_policies(self._namespaces, idle=2 * POLICY_SECONDS)
            except KubeError as error:
                logger.warning("NetworkPolicies cannot be reconciled, trying again: %s", error)

    async def _try_sync(self) -> None:
        try:
            await self._sync()
        except KubeError as error:
            logger.warning("SweSandboxes and their Pods cannot be listed, trying again: %s", error)

    async def _sync(self) -> None:
        for namespace in self._namespaces:
            # Pods last: a Pod's group is then known, or gone.
            await self._list_groups(namespace)
            await self._list_pods(namespace)
        self._synced = True
        records = [record for record in self._store.records() if record.group is not None]
        # Admitted groups are counted before a waiting one is admitted.
        for record in sorted(records, key=lambda record: (not self._reconciler.was_admitted(record), _age(record))):
            self._reconciler.track(record)
            self._enqueue(record)

    async def _list_groups(self, namespace: str | None) -> None:
        kind = WatchedKind.GROUPS
        present, version = await self._list(kind, namespace, lambda body: self._store.put_group(parse_group(body)))
        for uid in self._store.stale_groups(present, version, namespace):
            self._on_group_deleted(uid)
        self._versions[kind, namespace] = version

    async def _list_pods(self, namespace: str | None) -> None:
        kind = WatchedKind.PODS
        present, version = await self._list(kind, namespace, lambda body: self.on_pod_event("LISTED", body))
        for pod in self._store.stale_pods(present, version, namespace):
            self._on_pod_deleted(pod)
        self._versions[kind, namespace] = version

    async def _list(
        self, kind: WatchedKind, namespace: str | None, handle: Callable[[dict[str, Any]], object]
    ) -> tuple[set[str], int]:
        """Handle every object; their UIDs and the version of the list."""
        present: set[str] = set()
        list_version = 0
        async for bodies, version in self._api.pages(kind, namespace):
            list_version = version
            for body in bodies:
                present.add(body["metadata"]["uid"])
                handle(body)
        return present, list_version

    async def _watch_leases(self) -> None:
        leases = self._reconciler.leases
        while True:
            leases.track(self._store.leases())
            await asyncio.gather(*(self._read_lease(lease) for lease in leases.to_read(time.monotonic())))
            await asyncio.sleep(self._settings.lease_check_period)

    async def _read_lease(self, lease: ObjectKey) -> None:
        leases = self._reconciler.leases
        try:
            body = await self._api.lease(lease)
        except KubeError as error:
            logger.warning("Lease %s/%s cannot be read: %s", *lease, error)
            leases.postpone(lease, time.monotonic())
            return
        if body is None:
            leases.missing(lease, time.monotonic())
        else:
            leases.observe(lease, body, time.monotonic(), time.time())
        if leases.state(lease) is not LeaseState.HELD:
            for key in self._store.owned_by(lease):
                self._reconciler.queue.add(key)

    def _on_group_deleted(self, uid: str) -> None:
        record = self._store.drop_group(uid)
        if record is not None:
            self._reconciler.group_deleted(record)

    def _on_pod_deleted(self, pod: ParsedPod) -> None:
        record = self._store.drop_pod(pod.uid, pod)
        if record is not None:
            self._reconciler.pod_changed(record, pod, deleted=True)
            self._enqueue(record)

    def _enqueue(self, record: GroupRecord | None) -> None:
        if record is not None and record.group is not None and self._synced:
            self._reconciler.queue.add(record.group.key)


def _age(record: GroupRecord) -> tuple[float, int]:
    return (record.group.created if record.group else 0.0, record.arrival)
