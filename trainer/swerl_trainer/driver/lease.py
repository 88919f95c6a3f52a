"""The driver's Lease: as long as it is renewed, the sandboxes that name it live.

Guarantees: renewing happens in a thread with an event loop of its own, so nothing the driver computes or waits for can
starve it; a renewal that fails is tried again until the Lease would have expired, then `lost` completes; the Lease is
deleted on a clean end, so that what was left behind goes at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from swerl_agent.kube import Conflict, KubeClient, KubeError, NotFound
from swerl_api import API_VERSION
from swerl_api.names import LEASE_DURATION_SECONDS, LEASE_RENEW_SECONDS
from swerl_trainer.driver.errors import DriverError
from swerl_trainer.driver.job import Job

logger = logging.getLogger(__name__)

API, RESOURCE = "coordination.k8s.io/v1", "leases"
RETRY_SECONDS = 2.0  # between two tries of a renewal


class LeaseKeeper:
    """Holds the Lease of one attempt from `start` to `stop`."""

    def __init__(
        self, job: Job, *, holder: str, kubeconfig: str | None = None, interval: float = LEASE_RENEW_SECONDS
    ) -> None:
        self.lost: Future[None] = Future()  # fails with DriverError when the Lease could not be kept
        self._job = job
        self._holder = holder
        self._kubeconfig = kubeconfig
        self._interval = interval
        self._held = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to hold the Lease; returns at once."""
        self._thread.start()

    def wait_held(self, timeout: float = LEASE_DURATION_SECONDS) -> None:
        """Return when the Lease exists. Raises DriverError when it could not be made."""
        if not self._held.wait(timeout):
            raise DriverError(f"Lease {self._job.lease} could not be made in {timeout:.0f} s; see the log above")

    def stop(self) -> None:
        """Delete the Lease and end the thread."""
        self._stopping.set()
        self._thread.join(LEASE_RENEW_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._hold())
        except Exception as error:
            if not self.lost.done():
                self.lost.set_exception(DriverError(f"Lease {self._job.lease} was lost: {error}"))

    async def _hold(self) -> None:
        async with KubeClient.from_environment(self._kubeconfig) as client:
            renewed = time.monotonic()
            while not self._stopping.is_set():
                pause = self._interval
                try:
                    await self._renew(client)
                    renewed = time.monotonic()
                    self._held.set()
                except KubeError as error:
                    logger.warning("Lease %s not renewed: %s", self._job.lease, error)
                    if time.monotonic() - renewed > LEASE_DURATION_SECONDS:
                        raise
                    pause = RETRY_SECONDS
                await asyncio.to_thread(self._stopping.wait, pause)
            try:
                await client.delete(API, RESOURCE, self._job.namespace, self._job.lease)
            except KubeError as error:
                logger.warning("Lease %s not deleted: %s", self._job.lease, error)

    async def _renew(self, client: KubeClient) -> None:
        try:
            await client.patch(API, RESOURCE, self._job.namespace, self._job.lease, {"spec": self._spec()})
        except NotFound:
            try:
                await client.create(API, RESOURCE, self._job.namespace, self._manifest())
            except Conflict:
                await client.patch(API, RESOURCE, self._job.namespace, self._job.lease, {"spec": self._spec()})

    def _spec(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {"holderIdentity": self._holder, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": now}

    def _manifest(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self._job.lease, "labels": self._job.labels}
        if self._job.uid:
            owner = {"apiVersion": API_VERSION, "kind": "SweRLJob", "name": self._job.name, "uid": self._job.uid}
            metadata["ownerReferences"] = [owner]
        return {"apiVersion": API, "kind": "Lease", "metadata": metadata, "spec": self._spec()}
