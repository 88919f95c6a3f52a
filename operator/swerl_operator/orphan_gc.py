"""Garbage collection for client programs that were killed: their grading Jobs, NetworkPolicy and Lease.

Guarantees: a Lease is deleted only in the version that was found expired, and after the last grading Pod of its
program. So what the Lease owns, such as the policy that isolates those Pods, is deleted after them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import kopf
from swerl_api.names import LEASE_LABEL, ROLE_CLIENT, ROLE_LABEL
from swerl_kube import Conflict, Json, KubeClient, KubeError

from .context import OperatorContext
from .sandboxes.leases import LeaseState, LeaseTracker
from .sandboxes.settings import SandboxSettings
from .workqueue import ObjectKey

LEASES = ("coordination.k8s.io/v1", "leases")
TERMINATING_POLL_SECONDS = 1.0  # between two sweeps while Pods of an expired Lease end

logger = logging.getLogger(__name__)


class OrphanGC:
    """Collects in `namespaces`, empty for all. `clock` is monotonic, `wall` gives epoch seconds."""

    def __init__(
        self,
        api: KubeClient,
        namespaces: Sequence[str],
        settings: SandboxSettings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._namespaces = api, namespaces or (None,)
        self._tracker, self._period = LeaseTracker(settings), settings.lease_poll
        self._clock, self._wall = clock, wall

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            pods_left = False
            try:
                pods_left = await self.sweep()
            except KubeError as error:
                logger.warning("objects of killed programs cannot be listed, trying again: %s", error)
            await asyncio.sleep(TERMINATING_POLL_SECONDS if pods_left else self._period)

    async def sweep(self) -> bool:
        """Sweep once; whether Pods of an expired Lease are left. Raises KubeError."""
        leases: dict[ObjectKey, Json] = {}
        for namespace in self._namespaces:
            listed = await self._api.list(*LEASES, namespace, labels=f"{ROLE_LABEL}={ROLE_CLIENT}")
            leases |= {(lease["metadata"]["namespace"], lease["metadata"]["name"]): lease for lease in listed}
        self._tracker.track(set(leases))
        for key, lease in leases.items():
            self._tracker.observe(key, lease, self._clock(), self._wall())
        expired = [lease for key, lease in leases.items() if self._tracker.state(key) is LeaseState.EXPIRED]
        return not all([await self._collect(lease) for lease in expired])

    async def _collect(self, lease: Json) -> bool:
        """Delete the grading Jobs of the Lease's program, then the Lease; False while Pods are left."""
        meta = lease["metadata"]
        namespace, labels = meta["namespace"], f"{LEASE_LABEL}={meta['uid']}"
        await self._api.delete_all("batch/v1", "jobs", namespace, labels=labels)
        if await self._api.list("v1", "pods", namespace, labels=labels):
            return False
        try:
            await self._api.delete(*LEASES, namespace, meta["name"], uid=meta["uid"], version=meta["resourceVersion"])
        except Conflict:  # renewed at this moment
            return True
        logger.info("deleted Lease %s/%s: %s has not renewed it", namespace, meta["name"], _holder(lease))
        return True


def _holder(lease: Json) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity"))


def register(registry: kopf.OperatorRegistry, context: OperatorContext) -> None:
    """Add the background loop."""
    gc = OrphanGC(context.api, context.settings.namespaces, SandboxSettings())
    context.run_forever("orphan GC", gc.run)
