"""Why a Pod was lost: the one table, for operator, sandboxes and tests.

Guarantee: reading never fails on a missing field. Reasons are those of `SandboxReason`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from swerl_api.conditions import SandboxReason

# By the reason of condition DisruptionTarget.
DISRUPTIONS = {
    "PreemptionByScheduler": SandboxReason.PREEMPTED,
    "EvictionByEvictionAPI": SandboxReason.EVICTED,
    "TerminationByKubelet": SandboxReason.EVICTED,
    "DeletionByTaintManager": SandboxReason.NODE_LOST,
    "DeletionByPodGC": SandboxReason.NODE_LOST,
}
# By the reason of a failed Pod's status.
STATUS_REASONS = {
    "Evicted": SandboxReason.EVICTED,
    "Preempting": SandboxReason.PREEMPTED,
    "DeadlineExceeded": SandboxReason.LIFETIME_EXCEEDED,
    **dict.fromkeys(("NodeLost", "NodeShutdown", "Terminated", "Shutdown"), SandboxReason.NODE_LOST),
}
# The kubelet's message when a Pod itself, not its node, ran out of disk.
_STORAGE_LIMIT = re.compile(
    r"exceeds the total limit of containers|exceeded its local ephemeral storage limit|Usage of EmptyDir volume"
)
EXEC_FORMAT = "exec format error"  # the kernel's ENOEXEC, as runtimes word it
FOREIGN_REMEDY = (
    "the image is for another architecture than the node; set nodeSelector kubernetes.io/arch to the image's"
)
START_SECONDS = timedelta(seconds=1)  # the resolution of the kubelet's times
# The kubelet refuses a Pod that the scheduler had placed: prefixes of its status' reason.
KUBELET_REJECTIONS = ("OutOf", "NodeAffinity", "UnexpectedAdmissionError", "AppArmor", "SysctlForbidden")
DISRUPTION, KUEUE_PREEMPTION = "DisruptionTarget", "TerminationTarget"  # condition types


class PodLoss(NamedTuple):
    """A `SandboxReason` (or '' where none fits), and details."""

    reason: str
    message: str
    cause: str = ""  # the reason as Kubernetes states it


def disruption(status: Mapping[str, Any]) -> PodLoss | None:
    """Why the cluster takes the Pod of this status away; None while it does not."""
    if target := _true(status, DISRUPTION):
        cause = str(target.get("reason") or "")
        return PodLoss(DISRUPTIONS.get(cause, ""), _message(target), cause)
    if preemption := _true(status, KUEUE_PREEMPTION):  # Kueue preempts what it had admitted
        return PodLoss(SandboxReason.PREEMPTED, _message(preemption), str(preemption.get("reason") or ""))
    return None


def end_loss(status: Mapping[str, Any], container: str) -> PodLoss:
    """Why the Pod of this status, which failed or whose `container` ended, is lost."""
    cause, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if cause == "Evicted" and _exceeded_storage(message):
        return PodLoss(SandboxReason.STORAGE_EXCEEDED, message)
    if cause in STATUS_REASONS:
        return PodLoss(STATUS_REASONS[cause], message)
    if cause.startswith(KUBELET_REJECTIONS):
        return PodLoss(SandboxReason.POD_REJECTED, f"{cause}: {message}")
    if target := _true(status, DISRUPTION):
        reason = DISRUPTIONS.get(str(target.get("reason")), SandboxReason.POD_LOST)
        return PodLoss(reason, _message(target) or message)
    ended = container_state(status, container, "terminated")
    if ended.get("reason") == "OOMKilled":
        return PodLoss(SandboxReason.OOM_KILLED, "process 1 was killed for memory; raise spec.resources.limits.memory")
    if is_foreign(ended):
        return PodLoss(SandboxReason.FOREIGN_ARCHITECTURE, f"{str(ended.get('message')).strip()}: {FOREIGN_REMEDY}")
    if ended:
        detail = f"{ended.get('reason') or 'Error'}, exit code {ended.get('exitCode')}: {ended.get('message') or ''}"
        return PodLoss(SandboxReason.CONTAINER_EXITED, detail.rstrip(": "))
    return PodLoss(SandboxReason.POD_LOST, message or cause or "the Pod failed without a reason or message")


def exited_by_itself(metadata: Mapping[str, Any], status: Mapping[str, Any], container: str) -> bool:
    """Whether the container ended in no outage of the runtime, and before a deletion of its Pod was requested."""
    ended = container_state(status, container, "terminated")
    if ended.get("reason") not in ("Error", "Completed"):
        return False
    if not (deletion := metadata.get("deletionTimestamp")):
        return True
    if not (finished := ended.get("finishedAt")):
        return False
    requested = datetime.fromisoformat(deletion) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return datetime.fromisoformat(finished) < requested


def is_foreign(ended: Mapping[str, Any]) -> bool:
    """Whether the kernel refused the container's first program, by its state `terminated`.

    Only a container that ended as it started counts: later its programs can write any message themselves.
    """
    if EXEC_FORMAT not in str(ended.get("message") or ""):
        return False
    times = [ended.get(name) for name in ("startedAt", "finishedAt")]
    started, finished = (datetime.fromisoformat(time) if time else None for time in times)
    return started is None or finished is None or finished - started <= START_SECONDS


def _exceeded_storage(message: str) -> bool:
    """Whether an evicted Pod's own files exceeded its limit, and not its node's disk, by its status' message."""
    return _STORAGE_LIMIT.search(message) is not None


def container_state(status: Mapping[str, Any], container: str, state: str) -> dict[str, Any]:
    """The container's state `running`, `waiting` or `terminated`; empty when it is in another one."""
    return dict((container_status(status, container).get("state") or {}).get(state) or {})


def container_status(status: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Status of the container of that name, empty while there is none; a webhook may have added other containers."""
    found = (one for one in status.get("containerStatuses") or () if one.get("name") == container)
    return dict(next(found, {}))


def unready_sidecar(status: Mapping[str, Any], container: str) -> tuple[str, str] | None:
    """Name and state of the first container beside `container` that the Pod waits for; None while there is none."""
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if one.get("name") != container and not one.get("ready"):
            return str(one.get("name")), _state_words(one.get("state") or {})
    return None


def _state_words(state: Mapping[str, Any]) -> str:
    if waiting := state.get("waiting"):
        return f"{waiting.get('reason')}: {waiting.get('message') or ''}".rstrip(": ")
    if ended := state.get("terminated"):
        return f"{ended.get('reason') or 'Error'}, exit code {ended.get('exitCode')}"
    return "its readiness probe does not pass"


def _true(status: Mapping[str, Any], type: str) -> Mapping[str, Any]:
    """The condition if its status is True, else an empty one."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == type and condition.get("status") == "True":
            return dict(condition)
    return {}


def _message(condition: Mapping[str, Any]) -> str:
    return str(condition.get("message") or "")
