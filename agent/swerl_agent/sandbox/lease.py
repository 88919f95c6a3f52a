"""A Lease: the sandboxes that name it live as long as it is renewed, and are deleted after their client dies.

Guarantees:
* A thread with its own event loop renews the Lease, so no computation of the client delays it.
* A failed renewal is retried as long as a session tries to reach its sandbox; nothing expires while the API server is
  unreachable. After that `lost` completes. It completes at once when another program has taken over the Lease.
* A clean end deletes the Lease, so that what remains is deleted at once.
* A Lease that owns objects is never created again: they must not outlive it.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from swerl_api.names import (
    JOB_LABEL,
    LEASE_DURATION_SECONDS,
    LEASE_LABEL,
    LEASE_RENEW_SECONDS,
    ROLE_CLIENT,
    ROLE_LABEL,
)
from swerl_kube import Conflict, Forbidden, KubeClient, KubeContext, KubeError, NotFound

from .errors import SandboxError
from .settings import DEFAULT_SETTINGS

logger = logging.getLogger(__name__)

API, RESOURCE = "coordination.k8s.io/v1", "leases"
RETRY_SECONDS = 2.0  # before a failed renewal is retried
CREATE_TIMEOUT = 120.0  # seconds to create the Lease
OWNER_CREATE_TIMEOUT = 30.0  # the same for a Lease that owns objects: an interactive command waits for it
RENEW_TIMEOUT = 5.0  # seconds for one renewal; a dead connection must not cost the Lease
SAFETY_MARGIN = 10.0  # seconds that a Lease must still last before an object is created that must not outlive it


class LeaseLost(SandboxError):
    """The Lease could not be created or renewed; the sandboxes that name it are lost or soon will be."""

    code = "lease_lost"


class LeaseHeld(SandboxError):
    """Another running program holds the Lease."""

    code = "lease_held"


async def wait_until_expired(
    client: KubeClient, namespace: str, name: str, interval: float = LEASE_RENEW_SECONDS
) -> None:
    """Return when the Lease does not exist, or was not renewed for one and a half times `interval` (seconds).

    Raises LeaseHeld when it is renewed meanwhile. Only the local clock counts.
    """
    last_renewal, until = await _renewal(client, namespace, name), time.monotonic() + 1.5 * interval
    while last_renewal is not None and time.monotonic() < until:
        await asyncio.sleep(1.0)
        now = await _renewal(client, namespace, name)
        if now is not None and now != last_renewal:
            raise LeaseHeld(f"Lease {namespace}/{name} is renewed by {now[1]}, which is still running")
        last_renewal = now


async def _renewal(client: KubeClient, namespace: str, name: str) -> tuple[str, str] | None:
    """Time and holder of the last renewal."""
    try:
        spec = (await client.get(API, RESOURCE, namespace, name)).get("spec") or {}
    except NotFound:
        return None
    return str(spec.get("renewTime")), str(spec.get("holderIdentity"))


def process_identity() -> str:
    """A holder's readable identity: user, host, process."""
    return f"{getpass.getuser()}@{socket.gethostname()}/{os.getpid()}"


class LeaseKeeper:
    """Holds the Lease `name` from `start` to `stop`; `holder` is a readable identity.

    `owns_objects`: objects have it as owner; the operator deletes the Lease, and so them, when it has expired.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        *,
        holder: str,
        labels: Mapping[str, str] | None = None,
        owner_refs: Sequence[Mapping[str, Any]] = (),
        kubeconfig: str | KubeContext | None = None,
        interval: float = LEASE_RENEW_SECONDS,
        duration: int = LEASE_DURATION_SECONDS,
        owns_objects: bool = False,
    ) -> None:
        self.lost: Future[None] = Future()  # fails with LeaseLost when the Lease is lost
        self.name = name
        self.namespace = namespace
        self._labels, self._owners = dict(labels or {}), [dict(owner) for owner in owner_refs]
        self._holder = holder
        self._kubeconfig = kubeconfig
        self._interval, self._duration = interval, duration
        self._owns_objects = owns_objects
        self._renewed = 0.0  # time.monotonic at the start of the last successful renewal
        self._uid = ""  # once it exists
        self._version: str | None = None  # resourceVersion of our last write; another one means a takeover
        self._last_error: Exception | None = None
        self._held = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Start to create and renew the Lease; returns at once."""
        self._thread.start()

    def wait_held(self, timeout: float = CREATE_TIMEOUT) -> None:
        """Return when the Lease exists; raises LeaseLost when it cannot be created."""
        acquired = self._held.wait(timeout)
        if self.lost.done():
            self.lost.result()
        if not acquired:
            cause = f": {self._last_error or repr(self._last_error)}" if self._last_error else ""
            raise LeaseLost(f"Lease {self.namespace}/{self.name} could not be created in {timeout:.0f} s{cause}")

    @property
    def labels(self) -> dict[str, str]:
        """Labels for objects that must be deleted before the Lease: its own without its role. Needs a held Lease."""
        own = {name: value for name, value in self._labels.items() if name != ROLE_LABEL}
        return own | {LEASE_LABEL: self._uid}

    @property
    def reference(self) -> dict[str, Any]:
        """Owner reference; needs a held Lease."""
        return {"apiVersion": API, "kind": "Lease", "name": self.name, "uid": self._uid}

    async def wait_until_safe(self) -> None:
        """Return when the Lease is valid for another SAFETY_MARGIN seconds; raises LeaseLost when it is lost."""
        while not self.lost.done():
            if time.monotonic() - self._renewed < self._duration - SAFETY_MARGIN:
                return
            await asyncio.sleep(0.5)
        self.lost.result()

    def stop(self) -> None:
        """Delete the Lease and end the thread."""
        self._stopping.set()
        self._thread.join(LEASE_RENEW_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._renew_until_released())
        except Exception as error:
            self.lost.set_exception(LeaseLost(self._failure_message(error)))
            self._held.set()  # ends wait_held

    def _failure_message(self, error: Exception) -> str:
        state = "was lost" if self._uid else "cannot be created"
        remedy = "; let this account create, patch and delete leases there" if isinstance(error, Forbidden) else ""
        return f"Lease {self.namespace}/{self.name} {state}: {error or repr(error)}{remedy}"

    def _is_final(self, error: Exception) -> bool:
        """Whether a retry is too late, or needs a change of permissions or namespace first."""
        if self._owns_objects and not self._uid and isinstance(error, (Forbidden, NotFound)):
            return True
        return time.monotonic() - self._renewed > max(DEFAULT_SETTINGS.reconnect_window, self._duration)

    async def _renew_until_released(self) -> None:
        async with KubeClient.from_environment(self._kubeconfig) as client:
            self._renewed = time.monotonic()
            while not self._stopping.is_set():
                pause, started = self._interval, time.monotonic()
                try:
                    async with asyncio.timeout(RENEW_TIMEOUT):
                        await self._renew(client)
                    self._renewed, self._last_error = started, None
                    self._held.set()
                except (KubeError, TimeoutError) as error:
                    if repr(error) != repr(self._last_error):  # a line for each cause, not for each renewal
                        logger.warning("Lease %s not renewed, trying again: %r", self.name, error)
                    self._last_error = error
                    if self._is_final(error):
                        raise
                    pause = RETRY_SECONDS
                await asyncio.to_thread(self._stopping.wait, pause)
            try:
                async with asyncio.timeout(RENEW_TIMEOUT):
                    await client.delete(API, RESOURCE, self.namespace, self.name)
            except (KubeError, TimeoutError) as error:
                logger.warning("Lease %s not deleted: %r", self.name, error)

    async def _renew(self, client: KubeClient) -> None:
        """Write the Lease: the first time over any holder, later only if no other program wrote it."""
        try:
            lease = await self._write(client)
        except NotFound:
            if self._owns_objects and self._uid:
                raise LeaseLost("it was deleted, which happens when it is not renewed in time") from None
            lease = await client.create(RESOURCE, self._manifest(), namespace=self.namespace)
        except Conflict:
            holder = (await client.get(API, RESOURCE, self.namespace, self.name))["spec"].get("holderIdentity")
            if holder != self._holder:
                raise LeaseHeld(f"Lease {self.namespace}/{self.name} was taken over by {holder}") from None
            self._version = None
            lease = await self._write(client)
        self._version, self._uid = lease["metadata"]["resourceVersion"], lease["metadata"]["uid"]

    async def _write(self, client: KubeClient) -> dict[str, Any]:
        precondition = {"metadata": {"resourceVersion": self._version}} if self._version else {}
        return await client.patch(API, RESOURCE, self.namespace, self.name, precondition | {"spec": self._spec()})

    def _spec(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {"holderIdentity": self._holder, "leaseDurationSeconds": self._duration, "renewTime": now}

    def _manifest(self) -> dict[str, Any]:
        metadata = {"name": self.name, "labels": self._labels, "ownerReferences": self._owners}
        return {"apiVersion": API, "kind": "Lease", "metadata": metadata, "spec": self._spec()}


@asynccontextmanager
async def owning_lease(
    namespace: str,
    job: str,
    *,
    labels: Mapping[str, str] | None = None,
    owners: Sequence[Mapping[str, Any]] = (),
    kubeconfig: str | KubeContext | None = None,
) -> AsyncIterator[LeaseKeeper]:
    """A held Lease of this program; objects that it owns are deleted within a minute after the program is killed.

    `job` is the value of its job label; `labels` are further labels. Raises LeaseLost when it cannot be created.
    """
    keeper = LeaseKeeper(
        namespace,
        f"{job}-{os.urandom(4).hex()}",
        holder=process_identity(),
        labels={JOB_LABEL: job, **(labels or {}), ROLE_LABEL: ROLE_CLIENT},
        owner_refs=owners,
        kubeconfig=kubeconfig,
        owns_objects=True,
    )
    keeper.start()
    try:
        await asyncio.to_thread(keeper.wait_held, OWNER_CREATE_TIMEOUT)
        yield keeper
    finally:
        await asyncio.to_thread(keeper.stop)
