"""What the operator knows of a SweSandbox and of a sandbox Pod: small frozen records read from raw API objects.

Guarantees: reading never fails on a missing field; a Pod has exactly one state; a Pod that ended carries a reason from
`SandboxReason` (`Completed` for a normal end).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from pydantic import ValidationError
from swerl_api import names
from swerl_api.base import faults
from swerl_api.conditions import SandboxReason
from swerl_api.swesandbox import SweSandboxSpec

Object = Mapping[str, Any]
Key = tuple[str, str]  # namespace, name of a SweSandbox

DISRUPTIONS = {
    "PreemptionByScheduler": SandboxReason.PREEMPTED,
    "EvictionByEvictionAPI": SandboxReason.EVICTED,
    "TerminationByKubelet": SandboxReason.EVICTED,
    "DeletionByTaintManager": SandboxReason.NODE_LOST,
    "DeletionByPodGC": SandboxReason.NODE_LOST,
}
STATUS_REASONS = {
    "Evicted": SandboxReason.EVICTED,
    "Preempting": SandboxReason.PREEMPTED,
    "DeadlineExceeded": SandboxReason.LIFETIME_EXCEEDED,
    "NodeLost": SandboxReason.NODE_LOST,
    "NodeShutdown": SandboxReason.NODE_LOST,
    "Terminated": SandboxReason.NODE_LOST,
    "Shutdown": SandboxReason.NODE_LOST,
}
# The kubelet's own refusals of a Pod that the scheduler had placed.
KUBELET_REFUSALS = ("OutOf", "NodeAffinity", "UnexpectedAdmissionError", "AppArmor", "SysctlForbidden")


class PodState(Enum):
    """Where a Pod stands between creation and end."""

    WAITING = "waiting"  # not on a node: gated, unschedulable, or not looked at yet
    STARTING = "starting"  # on a node, container not ready
    READY = "ready"
    ENDING = "ending"  # deletion has begun
    ENDED = "ended"  # Succeeded or Failed


class Milestones(NamedTuple):
    """When a Pod got where, epoch seconds."""

    created: float
    scheduled: float
    prepared: float  # volumes and network are there
    started: float  # the container runs


@dataclass(frozen=True, slots=True)
class Pod:
    """One sandbox Pod."""

    namespace: str
    name: str
    uid: str
    ordinal: int
    version: int  # resourceVersion
    created: float  # epoch seconds
    state: PodState
    running: bool = False
    reason: str = ""  # why it ended, or why it does not start
    message: str = ""
    doomed: str = ""  # why it is being taken away though its client did not wish it, if so
    ending_since: float | None = None
    waiting_since: float | None = None  # when the cluster began to say that it has no node
    milestones: Milestones | None = None  # there once the container runs

    @property
    def live(self) -> bool:
        """Whether it still needs, or will need, a node."""
        return self.state is not PodState.ENDED

    @property
    def lost(self) -> bool:
        """Whether it ended otherwise than its client wished."""
        return self.state is PodState.ENDED and self.reason != SandboxReason.COMPLETED


def followed(known: Pod, pod: Pod) -> Pod:
    """`pod` with what is known from before: who began to take it away.

    The kubelet ends every deletion with grace period 0, so the last versions of a Pod no longer tell.
    """
    if not known.doomed or pod.doomed:
        return pod
    well = pod.state is PodState.ENDED and pod.reason == SandboxReason.COMPLETED
    reason = known.doomed if well else pod.reason
    return replace(pod, doomed=known.doomed, reason=reason, message=pod.message or known.message)


def said_of(pod: Pod) -> str:
    """Which Pod it is, and what the cluster says about it."""
    return f"{pod.name}: {pod.message}" if pod.message else pod.name


@dataclass(frozen=True, slots=True)
class Group:
    """One SweSandbox."""

    key: Key
    uid: str
    version: int
    generation: int
    created: float
    deleting: bool
    labels: Mapping[str, str]
    spec: SweSandboxSpec
    status: Mapping[str, Any]
    problem: str = ""  # why the spec cannot be read

    @property
    def job(self) -> str:
        """Label of the job it belongs to, or ''."""
        return self.labels.get(names.JOB_LABEL, "")

    @property
    def scope(self) -> Key:
        """Namespace and job: what shares an admission limit and a wave window."""
        return (self.key[0], self.job)


def seconds(stamp: str | None) -> float | None:
    """Epoch seconds of a Kubernetes time (with or without fraction), or None."""
    if not stamp:
        return None
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def timestamp(epoch: float) -> str:
    """Kubernetes time of `epoch` seconds."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_group(body: Object) -> Group:
    """The facts of a SweSandbox; a spec that does not validate is told in `problem`, with no replicas."""
    meta = body["metadata"]
    problem = ""
    try:
        spec = SweSandboxSpec.model_validate(body.get("spec") or {})
    except ValidationError as error:
        spec = SweSandboxSpec.model_construct(image="", replicas=0)
        problem = faults(error, "spec.")
    return Group(
        key=(str(meta["namespace"]), str(meta["name"])),
        uid=str(meta["uid"]),
        version=int(meta.get("resourceVersion") or 0),
        generation=int(meta.get("generation") or 1),
        created=seconds(meta.get("creationTimestamp")) or 0.0,
        deleting=bool(meta.get("deletionTimestamp")),
        labels=dict(meta.get("labels") or {}),
        spec=spec,
        status=dict(body.get("status") or {}),
        problem=problem,
    )


def owner_uid(body: Object) -> str | None:
    """UID of the SweSandbox that controls this Pod, or None."""
    for reference in body["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == "SweSandbox":
            return str(reference["uid"])
    return None


def ordinal_of(name: str) -> int | None:
    """Ordinal at the end of a sandbox Pod's name, or None if there is none."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else None


def read_pod(body: Object) -> Pod | None:
    """The facts of a sandbox Pod; None if its name carries no ordinal."""
    meta, status = body["metadata"], body.get("status") or {}
    ordinal = ordinal_of(str(meta["name"]))
    if ordinal is None:
        return None
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    state, reason, message = _progress(body.get("spec") or {}, status, conditions)
    ending = seconds(meta.get("deletionTimestamp"))
    doomed, verdict = _doom(meta, conditions)
    if ending is not None and state is not PodState.ENDED:
        state, message = PodState.ENDING, verdict or message
    unplaced = reason == SandboxReason.POD_LOST and not (body.get("spec") or {}).get("nodeName")
    if ending is not None and (unplaced or reason in (SandboxReason.CONTAINER_EXITED, SandboxReason.COMPLETED)):
        # The kubelet stopped it because it was deleted: by its client, or against its client's wish. What never had a
        # node, and is held by a queue's finalizer, the garbage collector of Pods marks as failed.
        reason, message = doomed or SandboxReason.COMPLETED, verdict
    return Pod(
        namespace=str(meta["namespace"]),
        name=str(meta["name"]),
        uid=str(meta["uid"]),
        ordinal=ordinal,
        version=int(meta.get("resourceVersion") or 0),
        created=seconds(meta.get("creationTimestamp")) or 0.0,
        state=state,
        running=status.get("phase") == "Running",
        reason=reason,
        message=message[:1024],
        doomed=doomed,
        ending_since=ending,
        waiting_since=_told_first(meta, conditions) if state is PodState.WAITING else None,
        milestones=_milestones(meta, status, conditions),
    )


def _told_first(meta: Object, conditions: Mapping[str, Object]) -> float | None:
    """When the scheduler first said that there is no node; API servers leave out the time of a gate's condition."""
    return seconds((conditions.get("PodScheduled") or {}).get("lastTransitionTime") or meta.get("creationTimestamp"))


def _milestones(meta: Object, status: Object, conditions: Mapping[str, Object]) -> Milestones | None:
    stamps = [
        meta.get("creationTimestamp"),
        (conditions.get("PodScheduled") or {}).get("lastTransitionTime"),
        (conditions.get("PodReadyToStartContainers") or {}).get("lastTransitionTime"),
        _container(status, "running").get("startedAt"),
    ]
    times = [time for time in map(seconds, stamps) if time is not None]
    return Milestones(*times) if len(times) == len(stamps) else None


def _doom(meta: Object, conditions: Mapping[str, Object]) -> tuple[str, str]:
    """Reason and message of a disruption that no client of the sandbox asked for; empty without one.

    Clients delete with grace period 0, which removes a Pod at once; whoever leaves a Pod its grace period is none.
    """
    told = _disruption(conditions)
    if told is not None:
        return DISRUPTIONS.get(str(told.get("reason")), ""), str(told.get("message") or "")
    queue = conditions.get("TerminationTarget") or {}
    if queue.get("status") == "True":  # Kueue takes back what it had admitted
        return SandboxReason.PREEMPTED, str(queue.get("message") or "")
    if meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds"):
        return SandboxReason.POD_DELETED, "somebody deleted the Pod (kubectl delete?) while its client used it"
    return "", ""


def _disruption(conditions: Mapping[str, Object]) -> Object | None:
    found = conditions.get("DisruptionTarget") or {}
    return found if found.get("status") == "True" else None


def _progress(spec: Object, status: Object, conditions: Mapping[str, Object]) -> tuple[PodState, str, str]:
    phase = status.get("phase") or "Pending"
    if phase == "Succeeded":
        return PodState.ENDED, SandboxReason.COMPLETED, ""
    if phase == "Failed":
        return PodState.ENDED, *_failure(status, conditions)
    if (conditions.get("Ready") or {}).get("status") == "True":
        return PodState.READY, "", ""
    placed = conditions.get("PodScheduled") or {}
    gates = ", ".join(str(gate["name"]) for gate in spec.get("schedulingGates") or ())
    if gates:
        return PodState.WAITING, SandboxReason.SCHEDULING_GATED, gates
    if placed.get("status") != "True":
        why, message = str(placed.get("reason") or ""), str(placed.get("message") or "")
        known = {SandboxReason.UNSCHEDULABLE, SandboxReason.SCHEDULING_GATED}
        return PodState.WAITING, why if why in known else "", message
    waiting = _container(status, "waiting")
    return PodState.STARTING, str(waiting.get("reason") or ""), str(waiting.get("message") or "")


def _failure(status: Object, conditions: Mapping[str, Object]) -> tuple[str, str]:
    told, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if told in STATUS_REASONS:
        return STATUS_REASONS[told], message
    if told.startswith(KUBELET_REFUSALS):
        return SandboxReason.POD_REJECTED, f"{told}: {message}"
    if (disruption := _disruption(conditions)) is not None:
        reason = DISRUPTIONS.get(str(disruption.get("reason")), SandboxReason.POD_LOST)
        return reason, str(disruption.get("message") or message)
    ended = _container(status, "terminated")
    if ended.get("reason") == "OOMKilled":
        return SandboxReason.OOM_KILLED, "process 1 was killed for memory; raise spec.resources.limits.memory"
    if ended:
        detail = f"{ended.get('reason') or 'Error'}, exit code {ended.get('exitCode')}: {ended.get('message') or ''}"
        return SandboxReason.CONTAINER_EXITED, detail.rstrip(": ")
    return SandboxReason.POD_LOST, message or told or "the Pod failed without saying why"


def _container(status: Object, state: str) -> Mapping[str, Any]:
    for container in status.get("containerStatuses") or ():
        if container.get("name") == names.SANDBOX_CONTAINER:
            return dict((container.get("state") or {}).get(state) or {})
    return {}
