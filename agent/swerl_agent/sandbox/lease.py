"""A Lease: as long as it is renewed, the sandboxes that name it live; a client that dies takes them along.

Guarantees: renewing happens in a thread with an event loop of its own, so nothing its user computes or waits for can
starve it; a renewal that fails is tried again for as long as a session tries to reach its sandbox (an API server that
nobody reaches lets nothing expire), then `lost` completes, as it does at once when another program has taken the Lease
over; the Lease is deleted on a clean end, so that what was left behind goes at once. An anchor is never made anew: what
it owns must not outlive it.
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

from ..kube import Conflict, Forbidden, KubeClient, KubeError, NotFound
from .errors import SandboxError
from .settings import DEFAULT_SETTINGS

logger = logging.getLogger(__name__)

API, RESOURCE = "coordination.k8s.io/v1", "leases"
RETRY_SECONDS = 2.0  # between two tries of a renewal
MAKE_TIMEOUT = 120.0  # seconds until it must have been made
ANCHOR_TIMEOUT = 30.0  # and for an anchor, at which a person may be looking
RENEW_TIMEOUT = 5.0  # seconds for one try; a connection that carries nothing any more must not cost the Lease
MARGIN = 10.0  # seconds that a Lease must last still for something to be made that must not outlive it


class LeaseLost(SandboxError):
    """The Lease could not be made or kept: the sandboxes that name it are, or soon will be, gone."""

    code = "lease_lost"


class LeaseHeld(SandboxError):
    """Another program that lives holds the Lease."""

    code = "lease_held"


async def until_abandoned(client: KubeClient, namespace: str, name: str, interval: float = LEASE_RENEW_SECONDS) -> None:
    """Return when the Lease is not there, or was not renewed for one and a half times `interval` (seconds).

    Raises LeaseHeld when it is renewed meanwhile; only our own clock counts.
    """
    seen, until = await _renewal(client, namespace, name), time.monotonic() + 1.5 * interval
    while seen is not None and time.monotonic() < until:
        await asyncio.sleep(1.0)
        now = await _renewal(client, namespace, name)
        if now is not None and now != seen:
            raise LeaseHeld(f"Lease {namespace}/{name} is renewed by {now[1]}: that program lives")
        seen = now


async def _renewal(client: KubeClient, namespace: str, name: str) -> tuple[str, str] | None:
    """When the Lease was renewed last, and by whom."""
    try:
        spec = (await client.get(API, RESOURCE, namespace, name)).get("spec") or {}
    except NotFound:
        return None
    return str(spec.get("renewTime")), str(spec.get("holderIdentity"))


def this_process() -> str:
    """Who holds a Lease, for people: user, host, process."""
    return f"{getpass.getuser()}@{socket.gethostname()}/{os.getpid()}"


class LeaseKeeper:
    """Holds the Lease `name` from `start` to `stop`; `holder` tells people who does.

    `anchor`: things are owned by it, and the operator deletes it, and them, when it has expired.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        *,
        holder: str,
        labels: Mapping[str, str] | None = None,
        owner_refs: Sequence[Mapping[str, Any]] = (),
        kubeconfig: str | None = None,
        interval: float = LEASE_RENEW_SECONDS,
        duration: int = LEASE_DURATION_SECONDS,
        anchor: bool = False,
    ) -> None:
        self.lost: Future[None] = Future()  # fails with LeaseLost when the Lease could not be kept
        self.name = name
        self.namespace = namespace
        self._labels, self._owners = dict(labels or {}), [dict(owner) for owner in owner_refs]
        self._holder = holder
        self._kubeconfig = kubeconfig
        self._interval, self._duration = interval, duration
        self._anchor = anchor
        self._renewed = 0.0  # when the last renewal that succeeded was begun, by time.monotonic
        self._uid = ""  # once it was made
        self._version: str | None = None  # of the Lease as we wrote it; another writer has taken it over
        self._trouble: Exception | None = None  # why the last try failed
        self._held = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to hold the Lease; returns at once."""
        self._thread.start()

    def wait_held(self, timeout: float = MAKE_TIMEOUT) -> None:
        """Return when the Lease exists. Raises LeaseLost when it could not be made."""
        held = self._held.wait(timeout)
        if self.lost.done():
            self.lost.result()
        if not held:
            cause = f": {self._trouble or repr(self._trouble)}" if self._trouble else ""
            raise LeaseLost(f"Lease {self.namespace}/{self.name} could not be made in {timeout:.0f} s{cause}")

    @property
    def labels(self) -> dict[str, str]:
        """Of what must be gone before the Lease is, its own but for its role; once it is held."""
        own = {name: value for name, value in self._labels.items() if name != ROLE_LABEL}
        return own | {LEASE_LABEL: self._uid}

    @property
    def reference(self) -> dict[str, Any]:
        """Owner reference, once it is held."""
        return {"apiVersion": API, "kind": "Lease", "name": self.name, "uid": self._uid}

    async def wait_until_safe(self) -> None:
        """Return when it cannot expire for another MARGIN seconds; raises LeaseLost when it is lost."""
        while not self.lost.done():
            if time.monotonic() - self._renewed < self._duration - MARGIN:
                return
            await asyncio.sleep(0.5)
        self.lost.result()

    def stop(self) -> None:
        """Delete the Lease and end the thread."""
        self._stopping.set()
        self._thread.join(LEASE_RENEW_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._hold())
        except Exception as error:
            self.lost.set_exception(LeaseLost(self._lament(error)))
            self._held.set()  # nobody need wait for it

    def _lament(self, error: Exception) -> str:
        fate = "was lost" if self._uid else "cannot be made"
        remedy = "; let this account create, patch and delete leases there" if isinstance(error, Forbidden) else ""
        return f"Lease {self.namespace}/{self.name} {fate}: {error or repr(error)}{remedy}"

    def _in_vain(self, error: Exception) -> bool:
        """Whether it is too late for another try, or a person must act first."""
        if self._anchor and not self._uid and isinstance(error, (Forbidden, NotFound)):
            return True
        return time.monotonic() - self._renewed > max(DEFAULT_SETTINGS.reconnect_window, self._duration)

    async def _hold(self) -> None:
        async with KubeClient.from_environment(self._kubeconfig) as client:
            self._renewed = time.monotonic()
            while not self._stopping.is_set():
                pause, begun = self._interval, time.monotonic()
                try:
                    async with asyncio.timeout(RENEW_TIMEOUT):
                        await self._renew(client)
                    self._renewed = begun
                    self._held.set()
                except (KubeError, TimeoutError) as error:
                    logger.warning("Lease %s not renewed: %r", self.name, error)
                    self._trouble = error
                    if self._in_vain(error):
                        raise
                    pause = RETRY_SECONDS
                await asyncio.to_thread(self._stopping.wait, pause)
            try:
                async with asyncio.timeout(RENEW_TIMEOUT):
                    await client.delete(API, RESOURCE, self.namespace, self.name)
            except NotFound:
                pass  # it went with its owner
            except (KubeError, TimeoutError) as error:
                logger.warning("Lease %s not deleted: %r", self.name, error)

    async def _renew(self, client: KubeClient) -> None:
        """Write the Lease: at first whoever held it, later only if nobody else did meanwhile."""
        try:
            lease = await self._write(client)
        except NotFound:
            if self._anchor and self._uid:
                raise LeaseLost("it was deleted, as one is that was not renewed in time") from None
            lease = await client.create(API, RESOURCE, self.namespace, self._manifest())
        except Conflict:
            holder = (await client.get(API, RESOURCE, self.namespace, self.name))["spec"].get("holderIdentity")
            if holder != self._holder:
                raise LeaseHeld(f"Lease {self.namespace}/{self.name} was taken over by {holder}") from None
            self._version = None
            lease = await self._write(client)
        self._version, self._uid = lease["metadata"]["resourceVersion"], lease["metadata"]["uid"]

    async def _write(self, client: KubeClient) -> dict[str, Any]:
        only_then = {"metadata": {"resourceVersion": self._version}} if self._version else {}
        return await client.patch(API, RESOURCE, self.namespace, self.name, only_then | {"spec": self._spec()})

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
    kubeconfig: str | None = None,
) -> AsyncIterator[LeaseKeeper]:
    """A Lease of this program, held; what is owned by it is gone within a minute when the program is killed.

    `job` is the name in its job label, `labels` are further ones. Raises LeaseLost when it cannot be made.
    """
    keeper = LeaseKeeper(
        namespace,
        f"{job}-{os.urandom(4).hex()}",
        holder=this_process(),
        labels={JOB_LABEL: job, **(labels or {}), ROLE_LABEL: ROLE_CLIENT},
        owner_refs=owners,
        kubeconfig=kubeconfig,
        anchor=True,
    )
    keeper.start()
    try:
        await asyncio.to_thread(keeper.wait_held, ANCHOR_TIMEOUT)
        yield keeper
    finally:
        await asyncio.to_thread(keeper.stop)
