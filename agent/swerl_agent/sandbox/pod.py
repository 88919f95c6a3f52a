"""The Pod of a session: exec streams into it, and why it was lost.

Guarantee: every stream of a session goes to the container in which the session began. Before each further stream, the
Pod's uid and the container's restart count are compared with the first; a difference raises a SandboxLost that names
the cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from swerl_api.conditions import SandboxReason
from swerl_api.names import SANDBOX_CONTAINER
from swerl_kube import (
    BadRequest,
    ExecChannel,
    Forbidden,
    HandshakeError,
    KubeClient,
    KubeError,
    NotFound,
    Unreachable,
    pause_after,
)
from swerl_kube.pod_loss import (
    container_state,
    container_status,
    disruption,
    end_loss,
    exited_by_itself,
    unready_sidecar,
)

from .errors import (
    ContainerExited,
    Evicted,
    ExecRefused,
    ForeignArchitecture,
    HandshakeFailed,
    ImagePullFailed,
    LeaseExpired,
    LifetimeExceeded,
    NodeLost,
    OOMKilled,
    PodGone,
    PodRejected,
    PodReplaced,
    SandboxError,
    StorageExceeded,
)

Json = dict[str, Any]

# By the reason of a loss.
LOSS_ERRORS: dict[str, type[SandboxError]] = {
    SandboxReason.CONTAINER_EXITED: ContainerExited,
    SandboxReason.EVICTED: Evicted,
    SandboxReason.FOREIGN_ARCHITECTURE: ForeignArchitecture,
    SandboxReason.IMAGE_PULL_FAILED: ImagePullFailed,
    SandboxReason.LEASE_EXPIRED: LeaseExpired,
    SandboxReason.LIFETIME_EXCEEDED: LifetimeExceeded,
    SandboxReason.NODE_LOST: NodeLost,
    SandboxReason.OOM_KILLED: OOMKilled,
    SandboxReason.POD_REJECTED: PodRejected,
    SandboxReason.PREEMPTED: Evicted,
    SandboxReason.STORAGE_EXCEEDED: StorageExceeded,
}


class PodConnector:
    """Opens exec streams into one container of one Pod object; `restarts`: its restart count at the start."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        pod: str,
        *,
        uid: str,
        container: str = SANDBOX_CONTAINER,
        restarts: int = 0,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._container = container
        self.pod = pod
        self.uid = uid
        self._restarts = restarts
        self._opened = False

    async def open(self, command: Sequence[str], *, tty: bool = False) -> ExecChannel:
        """A new stream; raises SandboxLost (the Pod is lost) or HandshakeFailed (it cannot be reached now)."""
        if self._opened:
            await self.check()
        try:
            channel = await self._client.exec_stream(
                self._namespace,
                self.pod,
                command,
                container=self._container,
                retries=0,  # the caller checks the Pod before each retry
                tty=tty,
            )
        except (HandshakeError, NotFound, Unreachable) as error:
            await asyncio.sleep(pause_after(error, 0.0))  # a retry comes after that
            await self.check()
            refused = isinstance(error.__cause__, BadRequest | Forbidden)
            kind = ExecRefused if refused else HandshakeFailed
            raise kind(f"exec in {self._namespace}/{self.pod}: {error}") from error
        self._opened = True
        return channel

    async def check(self) -> None:
        """Return while the container runs; raises SandboxLost, or HandshakeFailed when the Pod cannot be read."""
        try:
            pod = await self._client.get("v1", "pods", self._namespace, self.pod)
        except NotFound:
            raise PodGone(f"Pod {self._namespace}/{self.pod} no longer exists") from None
        except KubeError as error:
            raise HandshakeFailed(f"Pod {self._namespace}/{self.pod} cannot be read: {error}") from error
        if (lost := loss_error(pod, self.uid, self._container, self._restarts)) is not None:
            raise lost


def loss_error(pod: Json, uid: str, container: str = SANDBOX_CONTAINER, restarts: int = 0) -> SandboxError | None:
    """Why the sandbox in `pod` (object `uid`, container restarted `restarts` times) is lost; None while it runs."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    name = f"Pod {metadata.get('namespace')}/{metadata['name']}"
    if metadata["uid"] != uid:
        return PodReplaced(f"{name} was replaced by another Pod (uid {metadata['uid']}, was {uid})")
    ended = container_state(status, container, "terminated")
    reason = str(status.get("reason") or ended.get("reason") or "")
    disrupted = disruption(status)
    if disrupted is not None and metadata.get("deletionTimestamp"):
        kind = LOSS_ERRORS.get(disrupted.reason, PodGone)
        return kind(f"{name} is being deleted: {disrupted.cause} {disrupted.message}".rstrip())
    if ended or status.get("phase") in ("Failed", "Succeeded"):
        kind = _end_error(pod, container)
        detail = end_loss(status, container).message if kind is ForeignArchitecture else status.get("message") or ""
        return kind(f"{name} ended: {reason or status.get('phase')} {detail}".rstrip())
    if status.get("phase") == "Unknown":
        return NodeLost(f"{name}: its node no longer reports")
    if restarts_of(pod, container) > restarts:
        return PodReplaced(f"{name}: container {container} was restarted; its state is lost")
    if metadata.get("deletionTimestamp"):
        kind = NodeLost if reason == "NodeLost" else PodGone
        return kind(f"{name} is being deleted")
    return None


def _end_error(pod: Json, container: str) -> type[SandboxError]:
    """The error of a Pod that failed or whose container ended."""
    status = pod.get("status") or {}
    kind = LOSS_ERRORS.get(end_loss(status, container).reason, PodGone)
    if kind is ContainerExited and not exited_by_itself(pod["metadata"], status, container):
        return PodGone
    return kind


def restarts_of(pod: Json, container: str = SANDBOX_CONTAINER) -> int:
    """Restart count of the container; after a runtime outage the kubelet restarts it despite its restart policy."""
    return int(container_status(pod.get("status") or {}, container).get("restartCount") or 0)


def image_of(pod: Json, container: str = SANDBOX_CONTAINER) -> str:
    """The image that the container runs, as its node resolved it (name@sha256:...); empty if unknown."""
    return str(container_status(pod.get("status") or {}, container).get("imageID") or "")


def ready(pod: Json) -> bool:
    """Whether the kubelet reports that the Pod is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def start_seconds(pod: Json) -> float:
    """Seconds from the Pod's startTime, when its lifetime begins, until it was ready; 0 if unknown."""
    status = pod.get("status") or {}
    stamps = [c["lastTransitionTime"] for c in status.get("conditions") or [] if c["type"] == "Ready"]
    if not stamps or not status.get("startTime"):
        return 0.0
    started, ready_at = (datetime.fromisoformat(text) for text in (status["startTime"], stamps[0]))
    return max(0.0, (ready_at - started).total_seconds())


def waiting_for(pod: Json, container: str = SANDBOX_CONTAINER) -> str:
    """One line on why a Pod is not ready: scheduling, image, container."""
    reason, message = waiting_reason(pod, container)
    return f"{reason}: {message}".rstrip(": ")


def waiting_reason(pod: Json, container: str = SANDBOX_CONTAINER) -> tuple[str, str]:
    """Reason and message of a Pod that is not ready; without them its phase.

    `container` counts first; a container that others added is reported, by name, where that one waits only for it.
    """
    status = pod.get("status") or {}
    waiting = container_state(status, container, "waiting")
    if waiting and waiting.get("reason") != "PodInitializing":
        return str(waiting.get("reason")), str(waiting.get("message") or "")
    if (sidecar := unready_sidecar(status, container)) is not None:
        return f"container {sidecar[0]}", sidecar[1]
    if waiting:
        return str(waiting.get("reason")), str(waiting.get("message") or "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return str(condition.get("reason")), str(condition.get("message") or "")
    return str(status.get("phase") or "no status yet"), ""
