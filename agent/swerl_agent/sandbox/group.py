"""A SweSandbox group as its client sees it: declare, claim Pods as they become ready, release, delete.

Guarantees: one write declares the whole group, one releases a Pod, both repeated while the API server is away; `claim`
hands out a session only when the Pod is ready, has proved its isolation (unless egress is allowed) and shows no git
history after the base commit (unless the spec keeps it); what prevents it is a typed error. `prefetch` does all of that
ahead, so that a later claim waits for nothing. Releasing or deleting what is gone already is no error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from swerl_api.images import PULL_REASONS
from swerl_api.names import JOB_LABEL, sandbox_pod_name
from swerl_api.swesandbox import SweSandboxSpec

from ..kube import KubeClient, NotFound
from .declaration import declare, remove
from .errors import CapacityExhausted, ImagePullFailed, NotReady, PodGone, SandboxError
from .group_status import ending, lacks_room, start_waits, waits_for
from .history import scrub_history
from .isolation import check_isolation
from .pod import PodConnector, image_of, loss_error, ready, restarts_of, start_seconds, waiting_for
from .session import Session
from .watch import GROUP_API, GROUPS, SandboxWatch

Json = dict[str, Any]
CLAIM_TIMEOUT = 1200.0  # seconds until a Pod must be ready: a group waits for its admission and its image
TOLD_SECONDS = 3.0  # that a group has to say why a Pod went; another Pod's image may be the cause


class SandboxGroup:
    """The Pods of one SweSandbox."""

    def __init__(
        self, watch: SandboxWatch, name: str, spec: SweSandboxSpec, uid: str, *, adopted: bool = False
    ) -> None:
        self.name = name
        self.spec = spec
        self.uid = uid
        self.login = True  # whether commands of the sessions to come begin in login shells
        self._adopted = adopted  # somebody else's work may be in it
        self._watch = watch
        self._client: KubeClient = watch.client
        self._sessions: dict[int, Session] = {}
        self._claims: dict[int, asyncio.Task[Session]] = {}  # made ahead by `prefetch`
        self._ready_since: dict[int, float] = {}  # claims made ahead that wait, ready, to be asked for
        self.idle_seconds = 0.0  # that sandboxes claimed ahead have waited, ready, until they were asked for or let go

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

        Raises ApiError as the API server refuses, KeyError without the job label.
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
        """The group `name` that another client declared; None when it is gone or about to be.

        Raises ValueError when it was declared with other fields.
        """
        watch = await SandboxWatch.shared(client, namespace or client.namespace, labels[JOB_LABEL])
        try:
            found = await client.get(GROUP_API, GROUPS, watch.namespace, name)
        except NotFound:
            return None
        if found["metadata"].get("deletionTimestamp"):
            return None
        there = SweSandboxSpec.model_validate(found["spec"])
        differing = [field for field, value in there if value != getattr(spec, field)]
        if differing:
            raise ValueError(f"SweSandbox {watch.namespace}/{name} exists and differs in {', '.join(differing)}")
        return cls(watch, name, spec, found["metadata"]["uid"], adopted=True)

    @property
    def reference(self) -> Json:
        """Owner reference: what bears it goes with the group."""
        return {"apiVersion": GROUP_API, "kind": "SweSandbox", "name": self.name, "uid": self.uid}

    def pod_name(self, ordinal: int) -> str:
        """Name of Pod `ordinal`."""
        return sandbox_pod_name(self.name, ordinal)

    @property
    def waits(self) -> dict[str, float]:
        """Seconds of the group's start by part, from `queue` to `start`; empty until the operator tells them."""
        return start_waits(self._watch.group(self.name))

    def prefetch(self, timeout: float = CLAIM_TIMEOUT) -> None:
        """Begin to claim every Pod; what goes wrong is raised by the `claim` that asks for it."""
        for ordinal in range(self.spec.replicas):
            task = asyncio.create_task(self._claim(ordinal, timeout), name=f"claim {self.pod_name(ordinal)}")
            task.add_done_callback(partial(self._prepared, ordinal))
            self._claims[ordinal] = task

    @property
    def age(self) -> float:
        """Seconds that the oldest sandbox which waits to be asked for has used of its lifetime."""
        now = time.monotonic()
        return max((now - since + self._started_in(i) for i, since in self._ready_since.items()), default=0.0)

    async def claim(self, ordinal: int, timeout: float = CLAIM_TIMEOUT) -> Session:
        """The session of Pod `ordinal`, as soon as that Pod is ready; `timeout` in seconds, unless it was prepared.

        Raises NotReady (and its kinds), NotIsolated, ScrubFailed or SandboxLost.
        """
        if (prepared := self._claims.pop(ordinal, None)) is not None:
            session = await prepared
            self._end_idling(ordinal)
            return session
        return await self._claim(ordinal, timeout)

    async def _claim(self, ordinal: int, timeout: float) -> Session:
        pod = self.pod_name(ordinal)
        try:
            found = await self._watch.wait(pod, self.name, lambda: self._ready(pod), timeout)
        except TimeoutError:
            seen = self._watch.group(self.name), self._watch.pod(pod)
            kind = CapacityExhausted if lacks_room(*seen) else NotReady
            why = waits_for(self.name, *seen)
            raise kind(f"{pod} was not ready after {timeout:.0f} s: {why}") from None
        except PodGone as lost:
            raise await self._told(pod, lost) from None
        connector = PodConnector(
            self._client, self._watch.namespace, pod, uid=found["metadata"]["uid"], restarts=self._blank_restarts(found)
        )
        # Whoever adopts the group goes on with the session.
        session = Session(connector, token=connector.uid, login=self.login, image=image_of(found))
        try:
            await self._prepare(session)
        except BaseException:
            await session.close()
            raise
        self._sessions[ordinal] = session
        return session

    async def release(self, ordinal: int) -> None:
        """Close the session and delete the Pod at once."""
        await self._forget(ordinal)
        if (session := self._sessions.pop(ordinal, None)) is not None:
            await session.close()
        await remove(self._client, "v1", "pods", self._watch.namespace, self.pod_name(ordinal), grace_seconds=0)

    async def delete(self) -> None:
        """Delete the SweSandbox, and with it every Pod that is left."""
        await self.close()
        await remove(self._client, GROUP_API, GROUPS, self._watch.namespace, self.name, uid=self.uid)

    async def close(self) -> None:
        """Close every session; the Pods are not touched."""
        for ordinal in list(self._claims):
            await self._forget(ordinal)
        for ordinal in list(self._sessions):
            await self._sessions.pop(ordinal).close()

    async def _forget(self, ordinal: int) -> None:
        """Stop a claim made ahead that nobody asked for."""
        if (prepared := self._claims.pop(ordinal, None)) is not None:
            prepared.cancel()
            await asyncio.wait([prepared])
            self._end_idling(ordinal)

    def _prepared(self, ordinal: int, claim: asyncio.Task[Session]) -> None:
        if not claim.cancelled() and claim.exception() is None:
            self._ready_since[ordinal] = time.monotonic()

    def _end_idling(self, ordinal: int) -> None:
        since = self._ready_since.pop(ordinal, None)
        self.idle_seconds += time.monotonic() - since if since is not None else 0.0

    def _started_in(self, ordinal: int) -> float:
        """Seconds from the Pod's start to its being ready, both by its node's clock."""
        pod = self._watch.pod(self.pod_name(ordinal))
        return start_seconds(pod) if pod is not None else 0.0

    async def _prepare(self, session: Session) -> None:
        if self.spec.egress == "none":
            await check_isolation(session, await self._watch.targets())
        if self.spec.scrub_git:
            await scrub_history(session, self.spec.workdir, id="swerl-scrub")  # not again what an agent committed since

    def _ready(self, name: str) -> Json | None:
        """The Pod when ready; raises what makes waiting vain."""
        pod = self._watch.pod(name)
        if pod is not None and self._owns(pod):
            if (lost := loss_error(pod, pod["metadata"]["uid"], restarts=self._blank_restarts(pod))) is not None:
                raise self._unpulled(pod) or lost
            return pod if ready(pod) else None
        self._check_group()
        return None

    def _blank_restarts(self, pod: Json) -> int:
        """How many restarts of the container cost nothing, for nobody had used it."""
        return 0 if self._adopted else restarts_of(pod)

    async def _told(self, pod: str, lost: PodGone) -> SandboxError:
        """What the group says of a Pod that went before it was ready, if it says so soon; else `lost`."""
        try:
            await self._watch.wait(pod, self.name, self._check_group, TOLD_SECONDS)
        except SandboxError as told:
            return told
        except TimeoutError:
            pass
        return lost

    def _unpulled(self, pod: Json) -> ImagePullFailed | None:
        """The operator gives up a Pod before it says in the group's status that its image was the cause."""
        why = waiting_for(pod)
        if why.partition(":")[0] not in PULL_REASONS:
            return None
        return ImagePullFailed(f"Pod {self._watch.namespace}/{pod['metadata']['name']}: {self.spec.image}: {why}")

    def _owns(self, pod: Json) -> bool:
        """Whether the Pod is this group's, not one of an earlier group of the same name on its way out."""
        return any(owner["uid"] == self.uid for owner in pod["metadata"].get("ownerReferences") or [])

    def _check_group(self) -> None:
        group = self._watch.group(self.name)
        if group is not None and group["metadata"]["uid"] == self.uid and (ended := ending(group)) is not None:
            raise ended
