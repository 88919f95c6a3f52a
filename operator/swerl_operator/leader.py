"""Leader election among operator processes with a Lease.

Guarantees: a process takes over a Lease only after it was released, or did not change for its whole duration, measured
by the process's own clock. Every write is conditional on the version read, so two candidates never both win. A leader
that could not renew within the renew deadline stops before another may start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from swerl_kube import Conflict, Json, KubeClient, KubeError, NotFound, Unavailable, pause_after

from .errors import OperatorError
from .metrics import Metrics

API = "coordination.k8s.io/v1"

logger = logging.getLogger(__name__)


class LeadershipLost(OperatorError):
    """The Lease could not be renewed in time or belongs to another process now."""


@dataclass(frozen=True)
class LeaderElectionConfig:
    """Seconds, named as in client-go's leader election."""

    lease_duration: int = 15
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    renew_timeout: float = 3.0  # of one renewal; with the deadline and a pause it must stay below the duration
    failed_retry_period: float = 0.5  # until a failed renewal is retried; a third one then starts before the deadline
    standby_period: float = 0.5  # poll interval of a standby: the longest time that a released Lease has no holder


class Leader:
    """Candidate `identity` for the Lease `namespace`/`name`."""

    def __init__(
        self,
        api: KubeClient,
        metrics: Metrics,
        namespace: str,
        name: str,
        identity: str,
        config: LeaderElectionConfig | None = None,
    ) -> None:
        self.config = config or LeaderElectionConfig()
        self._api = api
        self._metrics = metrics
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease: Json | None = None  # as last written by this process
        self._observed: tuple[str, float] = ("", 0.0)  # version of the other holder's Lease, and when first read
        self._other_holder = ""  # the present leader
        self.renewed = 0.0  # monotonic time of the last successful write; 0 while not leading

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while True:
            pause = self.config.standby_period
            try:
                if await self._try_acquire():
                    logger.info("leading as %s", self._identity)
                    self._metrics.leader.set(1)
                    return
            except KubeError as error:
                logger.warning("cannot take the leader Lease, trying again: %s", error)
                pause = pause_after(
                    error, self.config.standby_period if isinstance(error, Unavailable) else self.config.retry_period
                )
            await asyncio.sleep(pause)

    async def renew_until_lost(self) -> None:
        """Renew until cancelled; raises LeadershipLost."""
        pause = self.config.retry_period
        while True:
            await asyncio.sleep(pause)
            started, pause = time.monotonic(), self.config.retry_period
            try:
                async with asyncio.timeout(self.config.renew_timeout):
                    await self._renew()
                self.renewed = started
            except (Conflict, NotFound) as error:
                raise self._lost(f"was taken over or deleted: {error}") from error
            except (KubeError, TimeoutError) as error:  # a restarted API server may refuse: it has no roles yet
                since_renewal, pause = time.monotonic() - self.renewed, self.config.failed_retry_period
                if since_renewal > self.config.renew_deadline:
                    raise self._lost(f"not renewed for {since_renewal:.1f} s") from error
                logger.warning("leader Lease not renewed for %.1f s, trying again: %r", since_renewal, error)

    def _lost(self, cause: str) -> LeadershipLost:
        self.renewed = 0.0
        return LeadershipLost(f"Lease {self._name} {cause}")

    async def _renew(self) -> None:
        try:
            self._lease = await self._api.replace("leases", self._body(self._lease))
        except Conflict:
            current = await self._api.get(API, "leases", self._namespace, self._name)
            if current["spec"].get("holderIdentity") != self._identity:
                raise
            # This process changed it, by a renewal whose answer was lost.
            self._lease = await self._api.replace("leases", self._body(current))

    async def release(self) -> None:
        """Release the Lease so that the next candidate need not wait for its expiry; errors are logged only."""
        if self._lease is None:
            return
        self._metrics.leader.set(0)
        self.renewed = 0.0
        try:
            async with asyncio.timeout(self.config.renew_deadline):  # by then it is about to expire anyway
                await self._clear_holder()
        except (KubeError, TimeoutError) as error:
            logger.warning("Lease %s not released: %r", self._name, error)

    async def _clear_holder(self) -> None:
        current = await self._api.get(API, "leases", self._namespace, self._name)
        if current["spec"].get("holderIdentity") != self._identity:
            return
        body = self._body(current)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        await self._api.replace("leases", body)

    async def _try_acquire(self) -> bool:
        current = await self._api.find(API, "leases", self._namespace, self._name)
        if current is not None and not self._is_available(current):
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

    def _is_available(self, lease: Json) -> bool:
        holder = lease.get("spec", {}).get("holderIdentity")
        if not holder or holder == self._identity:
            return True
        version = lease["metadata"]["resourceVersion"]
        if version != self._observed[0]:
            self._observed = (version, time.monotonic())
            if holder != self._other_holder:
                self._other_holder = holder
                logger.info("standing by: %s leads", holder)
        duration = lease["spec"].get("leaseDurationSeconds") or self.config.lease_duration
        return time.monotonic() - self._observed[1] > float(duration)

    def _body(self, current: Json | None) -> Json:
        metadata: Json = {"namespace": self._namespace, "name": self._name}
        spec: Json = dict(current.get("spec") or {}) if current else {}
        if current is not None:
            metadata["resourceVersion"] = current["metadata"]["resourceVersion"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if current else 0)
        spec |= {"holderIdentity": self._identity, "leaseDurationSeconds": self.config.lease_duration, "renewTime": now}
        return {"apiVersion": API, "kind": "Lease", "metadata": metadata, "spec": spec}
