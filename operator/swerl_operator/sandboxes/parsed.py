"""SweSandboxes and sandbox Pods, parsed from raw API objects into small frozen records.

Guarantees: parsing never fails on a missing field; a Pod is in exactly one stage; a Pod that ended has a reason from
`SandboxReason` (`Completed` for a normal end).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from pydantic import ValidationError
from swerl_api import names
from swerl_api.base import format_validation_error
from swerl_api.conditions import Condition, SandboxCondition, SandboxReason, find_condition
from swerl_api.images import PULL_REASONS, START_REASONS
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import Json, pod_loss
from swerl_kube.pod_loss import container_state, container_status, end_loss, unready_sidecar

from ..times import parse_time
from ..workqueue import ObjectKey


class PodStage(Enum):
    """The stages of a Pod from creation to end."""

    WAITING = "waiting"  # not on a node: gated, unschedulable, or not scheduled yet
    STARTING = "starting"  # on a node, container not ready
    READY = "ready"
    TERMINATING = "terminating"  # deletion has begun
    TERMINATED = "terminated"  # Succeeded or Failed


class StartTimes(NamedTuple):
    """When a Pod reached each step of its start, in epoch seconds."""

    created: float
    scheduled: float
    prepared: float  # volumes and network are ready
    started: float  # the container runs


@dataclass(frozen=True, slots=True)
class ParsedPod:
    """One sandbox Pod."""

    namespace: str
    name: str
    uid: str
    ordinal: int
    version: int  # resourceVersion
    created: float  # epoch seconds
    stage: PodStage
    running: bool = False
    reason: str = ""  # why it ended, or why it does not start
    message: str = ""
    disruption: str = ""  # reason of a deletion that its client did not request
    terminating_since: float | None = None
    waiting_since: float | None = None  # when the scheduler first reported that it fits no node
    start_times: StartTimes | None = None  # known once the container runs

    @property
    def live(self) -> bool:
        """Whether it still needs, or will need, a node."""
        return self.stage is not PodStage.TERMINATED

    @property
    def lost(self) -> bool:
        """Whether it ended, but not by its client's request."""
        return self.stage is PodStage.TERMINATED and self.reason != SandboxReason.COMPLETED

    @property
    def description(self) -> str:
        """Its name, and the message of the cluster about it."""
        return f"{self.name}: {self.message}" if self.message else self.name

    @property
    def start_fails(self) -> bool:
        """Whether the kubelet cannot pull its image or create its container at present."""
        return self.stage is PodStage.STARTING and self.reason in PULL_REASONS | START_REASONS


def keep_disruption(known: ParsedPod, pod: ParsedPod) -> ParsedPod:
    """`pod` with the disruption of its earlier version: with grace period 0 the last versions no longer show it."""
    if not known.disruption or pod.disruption:
        return pod
    completed = pod.stage is PodStage.TERMINATED and pod.reason == SandboxReason.COMPLETED
    reason = known.disruption if completed else pod.reason
    return replace(pod, disruption=known.disruption, reason=reason, message=pod.message or known.message)


@dataclass(frozen=True, slots=True)
class ParsedGroup:
    """One SweSandbox."""

    key: ObjectKey
    uid: str
    version: int
    generation: int
    created: float
    deleting: bool
    labels: Mapping[str, str]
    spec: SweSandboxSpec
    status: Mapping[str, Any]
    spec_error: str = ""  # why the spec cannot be read

    @property
    def job_key(self) -> ObjectKey:
        """Namespace and job: its groups share an admission limit and a start window."""
        return (self.key[0], self.labels.get(names.JOB_LABEL, ""))

    def condition(self, type: str) -> Condition | None:
        """A condition of the written status."""
        return find_condition(parse_conditions(self.status), type)

    def is_condition_true(self, type: str) -> bool:
        """Whether the written status has the condition `type` with status True."""
        conditions = self.status.get("conditions") or ()
        return any(c.get("type") == type and c.get("status") == "True" for c in conditions)

    @property
    def finished_at(self) -> float | None:
        """When the written status reports the end, in epoch seconds; None while it reports none."""
        found = self.condition(SandboxCondition.FINISHED) if self.is_condition_true(SandboxCondition.FINISHED) else None
        return parse_time(found.last_transition_time) if found is not None else None


def parse_conditions(status: Mapping[str, Any]) -> list[Condition]:
    """The conditions of a raw status."""
    return [Condition.model_validate(condition) for condition in status.get("conditions") or ()]


def parse_group(body: Json) -> ParsedGroup:
    """Parse a SweSandbox; a spec that does not validate has its error in `spec_error`, and no replicas."""
    meta = body["metadata"]
    spec_error = ""
    try:
        spec = SweSandboxSpec.from_stored(body.get("spec") or {})
    except ValidationError as error:
        spec = SweSandboxSpec.model_construct(image="", replicas=0)
        spec_error = format_validation_error(error, "spec.")
    return ParsedGroup(
        key=(str(meta["namespace"]), str(meta["name"])),
        uid=str(meta["uid"]),
        version=int(meta.get("resourceVersion") or 0),
        generation=int(meta.get("generation") or 1),
        created=parse_time(meta.get("creationTimestamp")) or 0.0,
        deleting=bool(meta.get("deletionTimestamp")),
        labels=dict(meta.get("labels") or {}),
        spec=spec,
        status=dict(body.get("status") or {}),
        spec_error=spec_error,
    )


def owner_uid(body: Json) -> str | None:
    """UID of the SweSandbox that controls this Pod, or None."""
    for reference in body["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == "SweSandbox":
            return str(reference["uid"])
    return None


def ordinal_of(name: str) -> int | None:
    """Ordinal at the end of a sandbox Pod's name, or None if there is none."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else None


def parse_pod(body: Json) -> ParsedPod | None:
    """Parse a sandbox Pod; None if its name has no ordinal."""
    meta, status = body["metadata"], body.get("status") or {}
    ordinal = ordinal_of(str(meta["name"]))
    if ordinal is None:
        return None
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    stage, reason, message = _stage(body.get("spec") or {}, status, conditions)
    terminating_since = parse_time(meta.get("deletionTimestamp"))
    disruption, cause = _disruption(meta, status)
    if terminating_since is not None and stage is not PodStage.TERMINATED:
        stage, message = PodStage.TERMINATING, cause or message
    unscheduled = reason == SandboxReason.POD_LOST and not (body.get("spec") or {}).get("nodeName")
    if terminating_since is not None and (
        unscheduled or reason in (SandboxReason.CONTAINER_EXITED, SandboxReason.COMPLETED)
    ):
        # The kubelet stopped it because its client or a disruption deleted it. The Pod garbage collector marks as
        # failed what never had a node and is kept by a queue's finalizer.
        reason, message = disruption or SandboxReason.COMPLETED, cause
    return ParsedPod(
        namespace=str(meta["namespace"]),
        name=str(meta["name"]),
        uid=str(meta["uid"]),
        ordinal=ordinal,
        version=int(meta.get("resourceVersion") or 0),
        created=parse_time(meta.get("creationTimestamp")) or 0.0,
        stage=stage,
        running=status.get("phase") == "Running" and stage is not PodStage.TERMINATED,
        reason=reason,
        message=message[:1024],
        disruption=disruption,
        terminating_since=terminating_since,
        waiting_since=_unscheduled_since(meta, conditions) if stage is PodStage.WAITING else None,
        start_times=_start_times(meta, status, conditions),
    )


def _unscheduled_since(meta: Json, conditions: Mapping[str, Json]) -> float | None:
    """When the scheduler first reported that it fits no node; the condition of a gated Pod may have no time."""
    return parse_time((conditions.get("PodScheduled") or {}).get("lastTransitionTime") or meta.get("creationTimestamp"))


def _start_times(meta: Json, status: Json, conditions: Mapping[str, Json]) -> StartTimes | None:
    stamps = [
        meta.get("creationTimestamp"),
        (conditions.get("PodScheduled") or {}).get("lastTransitionTime"),
        (conditions.get("PodReadyToStartContainers") or {}).get("lastTransitionTime"),
        container_state(status, names.SANDBOX_CONTAINER, "running").get("startedAt"),
    ]
    times = [time for time in map(parse_time, stamps) if time is not None]
    return StartTimes(*times) if len(times) == len(stamps) else None


def _disruption(meta: Json, status: Json) -> tuple[str, str]:
    """Reason and message of a deletion that the client of the sandbox did not request; empty without one.

    Clients delete with grace period 0, which removes a Pod at once, so a deletion with a grace period is not theirs.
    """
    if (loss := pod_loss.disruption(status)) is not None:
        return loss.reason, loss.message
    if meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds"):
        return SandboxReason.POD_DELETED, "the Pod was deleted (kubectl delete?) while its client used it"
    return "", ""


def _true_condition(conditions: Mapping[str, Json], type: str) -> Json:
    """The condition if its status is True, else an empty one."""
    found = conditions.get(type) or {}
    return found if found.get("status") == "True" else {}


def _stage(spec: Json, status: Json, conditions: Mapping[str, Json]) -> tuple[PodStage, str, str]:
    phase = status.get("phase") or "Pending"
    ended = container_state(status, names.SANDBOX_CONTAINER, "terminated")  # a sidecar may keep the Pod running
    if phase == "Succeeded" or (phase != "Failed" and ended.get("exitCode") == 0):
        return PodStage.TERMINATED, SandboxReason.COMPLETED, ""
    if phase == "Failed" or ended:
        return PodStage.TERMINATED, *end_loss(status, names.SANDBOX_CONTAINER)[:2]
    if _true_condition(conditions, "Ready"):
        return PodStage.READY, "", ""
    scheduled = conditions.get("PodScheduled") or {}
    gates = ", ".join(str(gate["name"]) for gate in spec.get("schedulingGates") or ())
    if gates:
        return PodStage.WAITING, SandboxReason.SCHEDULING_GATED, gates
    if scheduled.get("status") != "True":
        reason, message = str(scheduled.get("reason") or ""), str(scheduled.get("message") or "")
        known = reason in (SandboxReason.UNSCHEDULABLE, SandboxReason.SCHEDULING_GATED)
        return PodStage.WAITING, reason if known else "", message
    waiting = container_state(status, names.SANDBOX_CONTAINER, "waiting")
    runs = container_status(status, names.SANDBOX_CONTAINER).get("ready")
    sidecar = unready_sidecar(status, names.SANDBOX_CONTAINER)
    if sidecar is not None and (runs or waiting.get("reason") == "PodInitializing"):
        text = f"container {sidecar[0]}, which is not ours, is not ready: {sidecar[1]}"
        return PodStage.STARTING, SandboxReason.SIDECAR_NOT_READY, text
    return PodStage.STARTING, str(waiting.get("reason") or ""), str(waiting.get("message") or "")
