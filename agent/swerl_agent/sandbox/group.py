"""A SweSandbox group as its client sees it: declare it, claim its Pods, release them, delete it.

Guarantees:
* One write declares the whole group, one releases a Pod; both are retried while the API server is unavailable.
* `claim` returns a session when the Pod is ready and has passed the isolation check, unless egress is allowed. Git
  history after the base commit is removed by then, unless the spec keeps it. Every obstacle is a typed error.
* `prefetch` does all of this ahead, so that a later claim returns at once.
* Releasing or deleting what no longer exists is no error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

from swerl_api.images import PULL_REASONS
from swerl_api.names import JOB_LABEL, sandbox_pod_name
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import KubeClient, KubeError, NotFound

from .declaration import declare, remove
from .errors import CapacityExhausted, ImagePullFailed, NotReady, PodGone, SandboxError
from .group_status import lacks_capacity, start_seconds_by_part, terminal_error, waiting_message
from .history import scrub_history
from .isolation import check_isolation
from .pod import PodConnector, image_of, loss_error, ready, restarts_of, start_seconds, waiting_for
from .session import Session
from .waits import reported
from .watch import GROUP_API, GROUPS, SandboxWatch

Json = dict[str, Any]
CLAIM_TIMEOUT = 1200.0  # seconds until a Pod must be ready; a group waits for its admission and its image
CAUSE_TIMEOUT = 3.0  # seconds for the group's status to name the cause of a deleted Pod, e.g. another Pod's image


class SandboxGroup:
    """The Pods of one SweSandbox."""

    def __init__(
        self, watch: SandboxWatch, name: str, spec: SweSandboxSpec, uid: str, *, adopted: bool = False
    ) -> None:
        self.name = name
        self.spec = spec
        self.uid = uid
        self.login = True  # whether commands of future sessions start in login shells
        self._adopted = adopted  # another client may have worked in it
        self._watch = watch
        self._client: KubeClient = watch.client
        self._sessions: dict[int, Session] = {}
        self._prefetched: dict[int, asyncio.Task[Session]] = {}  # claims in progress or done
        self._ready_since: dict[int, float] = {}  # by ordinal: prefetched and not claimed yet
        self.idle_seconds = 0.0  # total time that prefetched sandboxes were ready before their claim or release

    @classmethod
    async def declare(
        cls,
        client: KubeClient,
        *,
        name: str,
        spec: SweSandboxSpec,
        labels: Mapping[str, str],
        owner_ref: Json | None = None,
        namespace: str | None = None,
    ) -> Self:
        """Create the SweSandbox `name`; `labels` must name the job, whose groups share one watch.

        Raises ApiError when the API server refuses it, KeyError without the job label.
        """
        watch = await SandboxWatch.shared(client, namespace or client.namespace, labels[JOB_LABEL])
        metadata: Json = {"name": name, "namespace": watch.namespace, "labels": dict(labels)}
        if owner_ref is not None:
            metadata["ownerReferences"] = [owner_ref]
        body = {
            "apiVersion": GROUP_API,
            "kind": "SweSandbox",
            "metadata": metadata,
            "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        made = await declare(client, watch.namespace, body)
        return cls(watch, name, spec, made["metadata"]["uid"])

    @classmethod
    async def adopt(
        cls,
        client: KubeClient,
        *,
        name: str,
        spec: SweSandboxSpec,
        labels: Mapping[str, str],
        namespace: str | None = None,
    ) -> Self | None:
        """The group `name` that another client declared; None when it does not exist or is being deleted.

        Raises ValueError when its spec differs from `spec`.
        """
        watch = await SandboxWatch.shared(client, namespace or client.namespace, labels[JOB_LABEL])
        try:
            found = await client.get(GROUP_API, GROUPS, watch.namespace, name)
        except NotFound:
            return None
        if found["metadata"].get("deletionTimestamp"):
            return None
        declared_spec = SweSandboxSpec.from_stored(found["spec"])
        differing = [field for field, value in declared_spec if value != getattr(spec, field)]
        if differing:
            raise ValueError(f"SweSandbox {watch.namespace}/{name} exists and differs in {', '.join(differing)}")
        return cls(watch, name, spec, found["metadata"]["uid"], adopted=True)

    @property
    def reference(self) -> Json:
        """Owner reference: an object with it is deleted with the group."""
        return {"apiVersion": GROUP_API, "kind": "SweSandbox", "name": self.name, "uid": self.uid}

    def pod_name(self, ordinal: int) -> str:
        """Name of Pod `ordinal`."""
        return sandbox_pod_name(self.name, ordinal)

    @property
    def waits(self) -> dict[str, float]:
        """Seconds of the group's start by part, from `queue` to `start`; empty until the operator reports them."""
        return start_seconds_by_part(self._watch.group(self.name))

    def prefetch(self, timeout: float = CLAIM_TIMEOUT) -> None:
        """Start to claim every Pod; a failure is raised by the later `claim` of that Pod."""
        for ordinal in range(self.spec.replicas):
            task = asyncio.create_task(self._claim(ordinal, timeout), name=f"claim {self.pod_name(ordinal)}")
            task.add_done_callback(partial(self._on_prefetched, ordinal))
            self._prefetched[ordinal] = task

    @property
    def age(self) -> float:
        """Seconds of its lifetime that the oldest prefetched, unclaimed sandbox has used."""
        now = time.monotonic()
        return max((now - since + self._start_seconds(i) for i, since in self._ready_since.items()), default=0.0)

    async def claim(self, ordinal: int, timeout: float = CLAIM_TIMEOUT) -> Session:
        """The session of Pod `ordinal`, once that Pod is ready; `timeout` in seconds, ignored if it was prefetched.

        Raises NotReady (and its subclasses), NotIsolated, ScrubFailed or SandboxLost.
        """
        if (task := self._prefetched.pop(ordinal, None)) is not None:
            session = await task
            self._count_idle_time(ordinal)
            return session
        return await self._claim(ordinal, timeout)

    async def _claim(self, ordinal: int, timeout: float) -> Session:
        pod = self.pod_name(ordinal)
        try:
            async with reported(self._waits_for):
                found = await self._watch.wait(pod, self.name, lambda: self._ready(pod), timeout)
        except TimeoutError:
            objects = self._watch.group(self.name), self._watch.pod(pod)
            kind = CapacityExhausted if lacks_capacity(*objects) else NotReady
            why = waiting_message(self.name, *objects)
            raise kind(f"{pod} was not ready after {timeout:.0f} s: {why}") from None
        except PodGone as lost:
            raise await self._cause(pod, lost) from None
        connector = PodConnector(
            self._client,
            self._watch.namespace,
            pod,
            uid=found["metadata"]["uid"],
            restarts=self._unused_restarts(found),
        )
        # A client that adopts the group continues this session.
        session = Session(connector, token=connector.uid, login=self.login, image=image_of(found))
        try:
            await self._make_usable(session)
        except BaseException:
            await session.close()
            raise
        self._sessions[ordinal] = session
        return session

    def _waits_for(self) -> str:
        objects = [self._watch.pod(self.pod_name(ordinal)) for ordinal in range(self.spec.replicas)]
        pod = next((one for one in objects if one is not None and not ready(one)), None)
        return f"{self.name} waits: {waiting_message(self.name, self._watch.group(self.name), pod)}"

    async def release(self, ordinal: int) -> None:
        """Close the session and delete the Pod without a grace period."""
        await self._cancel_prefetch(ordinal)
        if (session := self._sessions.pop(ordinal, None)) is not None:
            await session.close()
        await remove(self._client, "v1", "pods", self._watch.namespace, self.pod_name(ordinal), grace_seconds=0)

    async def delete(self) -> None:
        """Delete the SweSandbox and with it its remaining Pods; claimed ones without a grace period."""
        claimed = {ordinal: session.token for ordinal, session in self._sessions.items()}  # a token is a Pod's uid
        await self.close()
        await remove(self._client, GROUP_API, GROUPS, self._watch.namespace, self.name, uid=self.uid)
        await asyncio.gather(*(self._remove_at_once(ordinal, uid) for ordinal, uid in claimed.items()))

    async def close(self) -> None:
        """Close every session; the Pods stay."""
        for ordinal in list(self._prefetched):
            await self._cancel_prefetch(ordinal)
        for ordinal in list(self._sessions):
            await self._sessions.pop(ordinal).close()

    async def _remove_at_once(self, ordinal: int, uid: str) -> None:
        """Delete a Pod of a deleted group; where this fails, the garbage collector does it, with a grace period."""
        pod, namespace = self.pod_name(ordinal), self._watch.namespace
        with suppress(KubeError):
            await self._client.delete("v1", "pods", namespace, pod, grace_seconds=0, uid=uid)

    async def _cancel_prefetch(self, ordinal: int) -> None:
        """Cancel the prefetch of a Pod that was not claimed."""
        if (task := self._prefetched.pop(ordinal, None)) is not None:
            task.cancel()
            await asyncio.wait([task])
            self._count_idle_time(ordinal)

    def _on_prefetched(self, ordinal: int, claim: asyncio.Task[Session]) -> None:
        if not claim.cancelled() and claim.exception() is None:
            self._ready_since[ordinal] = time.monotonic()

    def _count_idle_time(self, ordinal: int) -> None:
        since = self._ready_since.pop(ordinal, None)
        self.idle_seconds += time.monotonic() - since if since is not None else 0.0

    def _start_seconds(self, ordinal: int) -> float:
        """Seconds from the Pod's start until it was ready, by its node's clock."""
        pod = self._watch.pod(self.pod_name(ordinal))
        return start_seconds(pod) if pod is not None else 0.0

    async def _make_usable(self, session: Session) -> None:
        if self.spec.egress != "allow":
            await check_isolation(session, await self._watch.targets(), egress=self.spec.egress)
        if self.spec.scrub_git:
            await scrub_history(session, self.spec.workdir, id="swerl-scrub")  # once: keep later commits

    def _ready(self, name: str) -> Json | None:
        """The Pod when it is ready; raises an error that ends the wait."""
        pod = self._watch.pod(name)
        if pod is not None and self._owns(pod):
            if (lost := loss_error(pod, pod["metadata"]["uid"], restarts=self._unused_restarts(pod))) is not None:
                raise self._image_pull_error(pod) or lost
            return pod if ready(pod) else None
        self._check_group()
        return None

    def _unused_restarts(self, pod: Json) -> int:
        """Restarts of the container before its first use, which lose no state."""
        return 0 if self._adopted else restarts_of(pod)

    async def _cause(self, pod: str, lost: PodGone) -> SandboxError:
        """The cause in the group's status of a Pod deleted before it was ready; `lost` if there is none in time."""
        try:
            await self._watch.wait(pod, self.name, self._check_group, CAUSE_TIMEOUT)
        except SandboxError as cause:
            return cause
        except TimeoutError:
            pass
        return lost

    def _image_pull_error(self, pod: Json) -> ImagePullFailed | None:
        """The operator deletes such a Pod before the group's status names the image as the cause."""
        why = waiting_for(pod)
        if why.partition(":")[0] not in PULL_REASONS:
            return None
        return ImagePullFailed(f"Pod {self._watch.namespace}/{pod['metadata']['name']}: {self.spec.image}: {why}")

    def _owns(self, pod: Json) -> bool:
        """Whether this group owns the Pod; an earlier group of the same name may still have Pods."""
        return any(owner["uid"] == self.uid for owner in pod["metadata"].get("ownerReferences") or [])

    def _check_group(self) -> None:
        group = self._watch.group(self.name)
        if group is not None and group["metadata"]["uid"] == self.uid and (error := terminal_error(group)) is not None:
            raise error
