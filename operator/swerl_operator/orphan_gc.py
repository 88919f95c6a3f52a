"""What programs leave behind that were killed: gradings that nobody waits for, their NetworkPolicy, the Lease itself.

Guarantees: a Lease is deleted only as it was when it was seen to have expired, after the last Pod that its program had
graded patches in; so whatever the Lease owns, the policy that cuts those Pods off the network among it, outlives them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import kopf
from swerl_api.names import LEASE_LABEL, ROLE_CLIENT, ROLE_LABEL

from .context import OperatorContext
from .errors import Conflict, OperatorError
from .kube import Kube, Object
from .sandboxes.leases import Leases, LeaseState
from .sandboxes.parsed import Key
from .sandboxes.settings import SandboxSettings

LEASES = ("coordination.k8s.io/v1", "leases")
ENDING = 1.0  # seconds between two looks while Pods of an expired Lease end

logger = logging.getLogger(__name__)


class Abandoned:
    """Removes it; `namespaces` are those served, empty for all. `clock` is a steady one, `wall` tells epoch seconds."""

    def __init__(
        self,
        api: Kube,
        namespaces: Sequence[str],
        settings: SandboxSettings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._namespaces = api, namespaces or (None,)
        self._leases, self._period = Leases(settings), settings.lease_poll
        self._clock, self._wall = clock, wall

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            ending = False
            try:
                ending = await self.sweep()
            except OperatorError as error:
                logger.warning("what killed programs left cannot be looked for, trying again: %s", error)
            await asyncio.sleep(ENDING if ending else self._period)

    async def sweep(self) -> bool:
        """Look once; whether Pods of an expired Lease still run. Raises OperatorError."""
        found: dict[Key, Object] = {}
        for namespace in self._namespaces:
            listed = await self._api.list(*LEASES, namespace, labels=f"{ROLE_LABEL}={ROLE_CLIENT}")
            found |= {(lease["metadata"]["namespace"], lease["metadata"]["name"]): lease for lease in listed}
        self._leases.keep(set(found))
        for key, lease in found.items():
            self._leases.observe(key, lease, self._clock(), self._wall())
        expired = [lease for key, lease in found.items() if self._leases.state(key) is LeaseState.EXPIRED]
        return not all([await self._end(lease) for lease in expired])

    async def _end(self, lease: Object) -> bool:
        """End what the Lease stands for, then the Lease; whether it is done."""
        meta = lease["metadata"]
        namespace, mine = meta["namespace"], f"{LEASE_LABEL}={meta['uid']}"
        await self._api.delete_all("batch/v1", "jobs", namespace, labels=mine)
        if await self._api.list("v1", "pods", namespace, labels=mine):
            return False
        try:
            await self._api.delete(*LEASES, namespace, meta["name"], uid=meta["uid"], version=meta["resourceVersion"])
        except Conflict:  # renewed in this very moment
            return True
        logger.info("deleted Lease %s/%s: %s has not renewed it", namespace, meta["name"], _holder(lease))
        return True


def _holder(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity"))


def register(registry: kopf.OperatorRegistry, context: OperatorContext) -> None:
    """Add the background loop."""
    looker = Abandoned(context.api, context.settings.namespaces, SandboxSettings())
    context.run_forever("abandoned", looker.run)
