"""What the API server tells, turned into memory and work: watch events, lists, Leases.

Guarantees: no work starts before groups and Pods were listed; a watch goes on from the last version it told, through
EOF, silence and restarts of the API server, and when that version is gone a list tells what was missed, as one does
anyway from time to time; of each object only the facts are kept, and at most one page of raw objects at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import Gone, OperatorError, pause_after
from .api import Cluster, Collection
from .isolation_check import Proofs
from .leases import LeaseState
from .parsed import Key, Pod, owner_uid, read_group, read_pod
from .reconciler import Controller
from .settings import SandboxSettings
from .store import Record

logger = logging.getLogger(__name__)

TICK = 0.5  # seconds between two looks at which Lease must be read
LAST_WORDS = 3.0  # seconds for the last status writes of an orderly end
RETRY = 2.0  # seconds until a failed list is tried again
REOPEN = 0.1  # seconds until a watch that ended is opened again
BROKEN = 0.9  # seconds more until one that failed is
POLICIES = 10.0  # seconds between two looks at the NetworkPolicies


class Feed:
    """Feeds `controller`; `namespaces` are those served, empty for all; `leads`: whether this process still leads."""

    def __init__(
        self,
        cluster: Cluster,
        controller: Controller,
        proofs: Proofs,
        settings: SandboxSettings,
        namespaces: Sequence[str],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._leads = leads
        self._cluster = cluster
        self._controller = controller
        self._proofs = proofs
        self._store = controller.store
        self._settings = settings
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._synced = False
        self._versions: dict[tuple[Collection, str | None], int] = {}  # up to where each is known

    def group_event(self, kind: str, body: dict[str, Any]) -> None:
        """A watch event of a SweSandbox."""
        if kind == "DELETED":
            self._group_gone(str(body["metadata"]["uid"]))
        else:
            self._work(self._store.put_group(read_group(body)))

    def pod_event(self, kind: str, body: dict[str, Any]) -> None:
        """A watch event of a sandbox Pod; one that no SweSandbox controls is not ours."""
        owner, pod = owner_uid(body), read_pod(body)
        if owner is None or pod is None:
            return
        if kind == "DELETED":
            self._pod_gone(pod)
            return
        record = self._store.put_pod(owner, pod)
        if record is not None:
            self._controller.follow(record, pod)
            self._proofs.wish(record, pod)
            self._work(record)

    async def run(self) -> None:
        """Work until cancelled."""
        while not self._synced:
            await self._sync_safely()
            if not self._synced:
                await asyncio.sleep(RETRY)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._controller.queue.run(), name="sandbox workers")
                tasks.create_task(self._watch_leases(), name="sandbox leases")
                tasks.create_task(self._resync(), name="sandbox resync")
                tasks.create_task(self._keep_isolated(), name="sandbox policies")
                for collection, namespace in list(self._versions):
                    tasks.create_task(self._watch(collection, namespace), name=f"watch {collection.name.lower()}")
        finally:
            self._synced = False
            if self._leads():  # else another one does, and knows better
                with contextlib.suppress(OperatorError, TimeoutError):
                    async with asyncio.timeout(LAST_WORDS):
                        await self._controller.flush()
                        await self._controller.keep_isolated(self._namespaces, idle=0)

    async def _watch(self, collection: Collection, namespace: str | None) -> None:
        take = self.group_event if collection is Collection.GROUPS else self.pod_event
        while True:
            try:
                since = self._versions[collection, namespace]
                async for kind, body in self._cluster.events(collection, namespace, since):
                    if kind != "BOOKMARK":
                        take(kind, body)
                    self._versions[collection, namespace] = int(body["metadata"]["resourceVersion"])
            except Gone:
                await self._sync_safely()
            except OperatorError as error:
                logger.warning("%s", error)
                await asyncio.sleep(pause_after(error, BROKEN))
            await asyncio.sleep(REOPEN)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync)
            await self._sync_safely()

    async def _keep_isolated(self) -> None:
        while True:
            await asyncio.sleep(POLICIES)
            try:
                await self._controller.keep_isolated(self._namespaces, idle=2 * POLICIES)
            except OperatorError as error:
                logger.warning("NetworkPolicies cannot be looked after, trying again: %s", error)

    async def _sync_safely(self) -> None:
        try:
            await self._sync()
        except OperatorError as error:
            logger.warning("SweSandboxes and their Pods cannot be listed, trying again: %s", error)

    async def _sync(self) -> None:
        for namespace in self._namespaces:
            # Pods last: a Pod's group is then known, or gone.
            await self._list_groups(namespace)
            await self._list_pods(namespace)
        self._synced = True
        records = [record for record in self._store.records() if record.group is not None]
        # Who has a place takes it before anybody who waits is let in.
        for record in sorted(records, key=lambda record: (not self._controller.has_place(record), _age(record))):
            self._controller.enroll(record)
            self._work(record)

    async def _list_groups(self, namespace: str | None) -> None:
        collection = Collection.GROUPS
        present, version = await self._list(collection, namespace, lambda body: self._store.put_group(read_group(body)))
        for uid in self._store.stale_groups(present, version, namespace):
            self._group_gone(uid)
        self._versions[collection, namespace] = version

    async def _list_pods(self, namespace: str | None) -> None:
        collection = Collection.PODS
        present, version = await self._list(collection, namespace, lambda body: self.pod_event("LISTED", body))
        for pod in self._store.stale_pods(present, version, namespace):
            self._pod_gone(pod)
        self._versions[collection, namespace] = version

    async def _list(
        self, collection: Collection, namespace: str | None, take: Callable[[dict[str, Any]], object]
    ) -> tuple[set[str], int]:
        """Take in every object; their UIDs and the version of the list."""
        present: set[str] = set()
        at = 0
        async for bodies, version in self._cluster.pages(collection, namespace):
            at = version
            for body in bodies:
                present.add(body["metadata"]["uid"])
                take(body)
        return present, at

    async def _watch_leases(self) -> None:
        leases = self._controller.leases
        while True:
            leases.keep(self._store.leases())
            await asyncio.gather(*(self._read_lease(lease) for lease in leases.to_read(time.monotonic())))
            await asyncio.sleep(TICK)

    async def _read_lease(self, lease: Key) -> None:
        leases = self._controller.leases
        try:
            body = await self._cluster.lease(lease)
        except OperatorError as error:
            logger.warning("Lease %s/%s cannot be read: %s", *lease, error)
            leases.postpone(lease, time.monotonic())
            return
        if body is None:
            leases.missing(lease, time.monotonic())
        else:
            leases.observe(lease, body, time.monotonic(), time.time())
        if leases.state(lease) is not LeaseState.HELD:
            for key in self._store.owned_by(lease):
                self._controller.queue.add(key)

    def _group_gone(self, uid: str) -> None:
        record = self._store.drop_group(uid)
        if record is not None:
            self._controller.forget(record)

    def _pod_gone(self, pod: Pod) -> None:
        record = self._store.drop_pod(pod.uid, pod)
        if record is not None:
            self._controller.follow(record, pod, gone=True)
            self._work(record)

    def _work(self, record: Record | None) -> None:
        if record is not None and record.group is not None and self._synced:
            self._controller.queue.add(record.group.key)


def _age(record: Record) -> tuple[float, int]:
    return (record.group.created if record.group else 0.0, record.arrival)
