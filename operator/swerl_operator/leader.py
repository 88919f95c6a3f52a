"""Leadership of one operator process over a Lease.

Guarantees: a Lease is taken over only when it was seen unchanged for its whole duration by this process's own clock
(clocks of other nodes do not matter) or was released; every write is conditional on the version read, so two
candidates never both win; a leader that could not renew within RENEW_DEADLINE_SECONDS stops leading before another may
start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime

from .errors import Conflict, NotFound, OperatorError, Unavailable, pause_after
from .kube import Kube, Object
from .metrics import Metrics

API = "coordination.k8s.io/v1"
DURATION_SECONDS = 15
RENEW_DEADLINE_SECONDS = 10.0
RETRY_SECONDS = 2.0
RENEW_TIMEOUT_SECONDS = 3.0  # for one renewal; with the deadline and a pause it must stay below the duration
FAILED_SECONDS = 0.5  # after a renewal that failed; a third then begins before the deadline
STANDBY_SECONDS = 0.5  # between two looks of a process that waits: the most a released Lease stays without a holder

logger = logging.getLogger(__name__)


class LeadershipLost(OperatorError):
    """The Lease could not be renewed in time or belongs to another process now."""


class Leader:
    """Candidate `identity` for the Lease `namespace`/`name`."""

    def __init__(self, api: Kube, metrics: Metrics, namespace: str, name: str, identity: str) -> None:
        self._api = api
        self._metrics = metrics
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease: Object | None = None  # as last written by us
        self._seen: tuple[str, float] = ("", 0.0)  # version of another's Lease, and when first seen
        self._rival = ""  # who leads instead
        self.renewed = 0.0  # monotonic time of the last successful write; 0 while not leading

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while True:
            pause = STANDBY_SECONDS
            try:
                if await self._try():
                    logger.info("leading as %s", self._identity)
                    self._metrics.leader.set(1)
                    return
            except OperatorError as error:
                logger.warning("cannot take the leader Lease, trying again: %s", error)
                pause = pause_after(error, STANDBY_SECONDS if isinstance(error, Unavailable) else RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def hold(self) -> None:
        """Renew until cancelled; raises LeadershipLost."""
        pause = RETRY_SECONDS
        while True:
            await asyncio.sleep(pause)
            started, pause = time.monotonic(), RETRY_SECONDS
            try:
                async with asyncio.timeout(RENEW_TIMEOUT_SECONDS):
                    await self._renew()
                self.renewed = started
            except (Conflict, NotFound) as error:
                raise self._lost(f"was taken or removed: {error}") from error
            except (OperatorError, TimeoutError) as error:  # refusals too: a restarted API server knows no roles yet
                silence, pause = time.monotonic() - self.renewed, FAILED_SECONDS
                if silence > RENEW_DEADLINE_SECONDS:
                    raise self._lost(f"not renewed for {silence:.1f} s") from error
                logger.warning("leader Lease not renewed for %.1f s, trying again: %r", silence, error)

    def _lost(self, how: str) -> LeadershipLost:
        self.renewed = 0.0
        return LeadershipLost(f"Lease {self._name} {how}")

    async def _renew(self) -> None:
        try:
            self._lease = await self._api.replace("leases", self._body(self._lease))
        except Conflict:
            current = await self._api.get(API, "leases", self._namespace, self._name)
            if current["spec"].get("holderIdentity") != self._identity:
                raise
            # It was we who changed it, by a renewal whose answer was lost.
            self._lease = await self._api.replace("leases", self._body(current))

    async def release(self) -> None:
        """Give the Lease back so that the next candidate need not wait; errors only cost it that wait."""
        if self._lease is None:
            return
        self._metrics.leader.set(0)
        self.renewed = 0.0
        try:
            async with asyncio.timeout(RENEW_DEADLINE_SECONDS):  # then it is about to run out anyway
                await self._give_back()
        except (OperatorError, TimeoutError) as error:
            logger.warning("Lease %s not released: %r", self._name, error)

    async def _give_back(self) -> None:
        current = await self._api.get(API, "leases", self._namespace, self._name)
        if current["spec"].get("holderIdentity") != self._identity:
            return
        body = self._body(current)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        await self._api.replace("leases", body)

    async def _try(self) -> bool:
        current = await self._api.find(API, "leases", self._namespace, self._name)
        if current is not None and not self._free(current):
            return False
        try:
            if current is None:
                self._lease = await self._api.create("leases", self._body(None))
            else:
                self._lease = await self._api.replace("leases", self._body(current))
        except Conflict:
            return False
        self.renewed = time.monotonic()
        return True

    def _free(self, lease: Object) -> bool:
        holder = lease.get("spec", {}).get("holderIdentity")
        if not holder or holder == self._identity:
            return True
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, time.monotonic())
            if holder != self._rival:
                self._rival = holder
                logger.info("standing by: %s leads", holder)
        duration = lease["spec"].get("leaseDurationSeconds") or DURATION_SECONDS
        return time.monotonic() - self._seen[1] > float(duration)

    def _body(self, current: Object | None) -> Object:
        metadata: Object = {"namespace": self._namespace, "name": self._name}
        spec: Object = dict(current.get("spec") or {}) if current else {}
        if current is not None:
            metadata["resourceVersion"] = current["metadata"]["resourceVersion"]
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = moment
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if current else 0)
        spec |= {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": moment}
        return {"apiVersion": API, "kind": "Lease", "metadata": metadata, "spec": spec}
