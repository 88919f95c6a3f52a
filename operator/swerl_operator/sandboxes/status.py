"""The status of a group, and when to write it.

Guarantees: an unchanged status is never written. Changes are written together, e.g. an admission with the first Pods.
A group of four costs two or three writes over its life. CPU-seconds are written with other
changes, and at most once on their own. `lastTransitionTime` changes only with its condition. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from swerl_api import names
from swerl_api.conditions import ConditionStatus, SandboxCondition, SandboxReason, set_condition

from ..times import format_time
from .decide import GroupDecision, PodCounts, StatusReason, count_pods, loss_message
from .parsed import ParsedPod, PodStage, parse_conditions
from .settings import SandboxSettings
from .store import GroupRecord

StatusBody = dict[str, Any]
ConditionState = tuple[ConditionStatus, str, str]  # status, reason and message of a condition
COUNTS = ("replicas", "ready", "running", "finished", "failed")


def desired_status(record: GroupRecord, decision: GroupDecision, now: float) -> StatusBody:
    """The status that describes `record`, as the API takes it."""
    group, counts = record.existing_group, count_pods(record)
    admitted, ready, finished = _admitted(record), _ready(record, counts, decision), decision.finished
    degraded = _degraded(record, counts)
    states: dict[str, ConditionState] = {SandboxCondition.ADMITTED: admitted, SandboxCondition.READY: ready}
    if degraded is not None:
        states[SandboxCondition.DEGRADED] = ("True", *degraded)
    if finished is not None:
        states[SandboxCondition.FINISHED] = ("True", *finished)
    conditions = parse_conditions(group.status)
    for type, mark in states.items():
        conditions = set_condition(conditions, type, *mark, generation=group.generation, time=format_time(now))
    return {
        "phase": _phase(admitted[0], ready[0], finished),
        "replicas": counts.created,
        "ready": counts.ready,
        "running": counts.running,
        "finished": counts.finished,
        "failed": counts.failed,
        **_waits(record, ready[0]),
        **_cpu_seconds(record, finished=finished is not None),
        "conditions": [c.model_dump(by_alias=True, exclude_none=True) for c in conditions],
        "observedGeneration": group.generation,
    }


def _admitted(record: GroupRecord) -> ConditionState:
    state = record.state
    gated = _waiting_for(record, SandboxReason.SCHEDULING_GATED)
    if gated:
        return "False", SandboxReason.SCHEDULING_GATED, _gate_message(record, gated[0])
    if not record.created and state.refusal is not None and state.refusal[0] == SandboxReason.WAITING_FOR_CAPACITY:
        return "False", *state.refusal
    if record.created > 0 or (state.admitted and state.policy_in_place):
        return "True", SandboxReason.ADMITTED, ""
    if state.admitted:
        text = "the namespace's NetworkPolicy is not in place; see the operator's log"
        return "False", SandboxReason.WAITING_FOR_ISOLATION, text
    if state.waits_for_other_jobs:
        text = (
            "all sandboxes that the operator allows (--sandbox-limit) are in use; jobs take turns, the smallest first"
        )
    else:
        limit = record.existing_group.spec.max_concurrent
        text = f"older groups of this job use its {limit} sandboxes; this one follows in order"
    return "False", SandboxReason.WAITING_FOR_CAPACITY, text


def _ready(record: GroupRecord, counts: PodCounts, decision: GroupDecision) -> ConditionState:
    if decision.finished is not None:
        reason, message = decision.finished
        return "False", reason, message or "all Pods of the group have ended"
    # Once all were ready the group stays ready until its end, although its Pods end one by one.
    group = record.existing_group
    before = group.condition(SandboxCondition.READY)
    if before is not None and before.status == "True":
        return "True", before.reason, before.message
    settled = counts.ready + counts.finished + counts.failed
    if counts.created >= group.spec.replicas > 0 and settled >= counts.created and counts.ready + counts.finished:
        problem = record.isolation_problem
        if problem is None:
            return "True", SandboxReason.ALL_READY, ""
        if problem:
            return "False", SandboxReason.NOT_ISOLATED, problem
        return "False", SandboxReason.VERIFYING_ISOLATION, "the sandboxes are ready and their isolation is checked"
    return "False", *_not_ready_reason(record)


def _not_ready_reason(record: GroupRecord) -> StatusReason:
    failing = [pod for pod in record.pods.values() if pod.start_fails]
    if failing:
        text = f"image {record.existing_group.spec.image}: {failing[0].reason}, trying again"
        return SandboxReason.PULLING_IMAGE, text
    gated = _waiting_for(record, SandboxReason.SCHEDULING_GATED)
    if gated:
        return SandboxReason.SCHEDULING_GATED, _gate_message(record, gated[0])
    unschedulable = _waiting_for(record, SandboxReason.UNSCHEDULABLE)
    if unschedulable:
        return SandboxReason.UNSCHEDULABLE, _unschedulable_message(record, unschedulable)
    if record.state.refusal is not None:
        return record.state.refusal
    pods = record.pods.values()
    held = [pod for pod in pods if pod.stage is PodStage.STARTING and pod.reason == SandboxReason.SIDECAR_NOT_READY]
    if held:
        return SandboxReason.SIDECAR_NOT_READY, held[0].description[:1024]
    if record.state.admitted:
        return SandboxReason.CREATING, "the Pods are created and start"
    return SandboxReason.WAITING_FOR_CAPACITY, "the group is not admitted yet: condition Admitted says why"


def _waiting_for(record: GroupRecord, reason: str) -> list[ParsedPod]:
    """The Pods that have no node for this reason, those first that have waited longest."""
    pods = [pod for pod in record.pods.values() if pod.stage is PodStage.WAITING and pod.reason == reason]
    return sorted(pods, key=_waiting_since)


def _waiting_since(pod: ParsedPod) -> float:
    return pod.waiting_since or pod.created


def _unschedulable_message(record: GroupRecord, waiting: list[ParsedPod]) -> str:
    """How many Pods wait, since when the first of them does, and the scheduler's message about it."""
    first = waiting[0]
    number = f"{len(waiting)} of {record.existing_group.spec.replicas} Pods"
    return f"{number} without a node, {first.name} since {format_time(_waiting_since(first))}: {first.message}"


def _gate_message(record: GroupRecord, gated: ParsedPod) -> str:
    queue = record.existing_group.labels.get(names.QUEUE_LABEL)
    owner = f"LocalQueue {queue}" if queue else "the controller that put them there"
    text = f"scheduling gates hold its Pods ({gated.message}); they wait for {owner}"
    return f"{text}: {record.state.queue_message}"[:1024] if record.state.queue_message else text


def _degraded(record: GroupRecord, counts: PodCounts) -> StatusReason | None:
    """Why Pods were lost, or None while none was."""
    if not counts.reasons:
        return None
    before = record.existing_group.condition(SandboxCondition.DEGRADED)
    if before is not None and set(counts.reasons) == {SandboxReason.POD_LOST}:
        return before.reason, before.message  # an earlier operator process knew more than the counts show
    reason = counts.main_reason
    example = loss_message(record, reason)
    text = f"{counts.failed} of {record.existing_group.spec.replicas} Pods were lost: {counts.loss_summary}"
    return reason, (f"{text}; {example}" if example else text)[:1024]


def _cpu_seconds(record: GroupRecord, *, finished: bool) -> dict[str, float]:
    """Left out until the group was ready: written with its start, they might never be updated."""
    written = record.existing_group.status
    was_ready = finished or record.existing_group.is_condition_true(SandboxCondition.READY)
    known = max(record.cpu_seconds if was_ready else 0.0, float(written.get("cpuSeconds") or 0.0))
    return {"cpuSeconds": round(known, 1)} if known else {}


def _waits(record: GroupRecord, ready: str) -> dict[str, dict[str, float]]:
    """Where the time until ready went, written together with Ready."""
    known = record.existing_group.status.get("waits")
    started = {pod.uid: pod.start_times for pod in record.pods.values() if pod.start_times is not None}
    if known or ready != "True" or not started:
        return {"waits": known} if known else {}
    times = started.values()
    pulls = {uid: record.pulls[uid] for uid in started if uid in record.pulls}
    after_pull = [started[uid].started - started[uid].prepared - pull for uid, pull in pulls.items()]
    parts = {
        "queueSeconds": [t.created - record.existing_group.created for t in times],
        "scheduleSeconds": [t.scheduled - t.created for t in times],
        "prepareSeconds": [t.prepared - t.scheduled for t in times],
        "pullSeconds": list(pulls.values()),
        "startSeconds": after_pull or [t.started - t.prepared for t in times],
    }
    return {"waits": {name: round(max(0.0, fmean(values)), 1) for name, values in parts.items() if values}}


def _phase(admitted: str, ready: str, finished: StatusReason | None) -> str:
    if finished is not None:
        return "Finished" if finished[0] == SandboxReason.COMPLETED else "Failed"
    if ready == "True":
        return "Ready"
    return "Admitted" if admitted == "True" else "Pending"


def write_time(record: GroupRecord, desired: StatusBody, now: float, settings: SandboxSettings) -> float | None:
    """When to write `desired` (epoch seconds); None if it is unchanged. Updates the record's `writes`."""
    writes, written, replicas = record.state.writes, record.existing_group.status, record.existing_group.spec.replicas
    urgency, within_write_budget = _urgency(written, desired), writes.count < max(2, replicas - 2)
    if urgency == "counts" and not within_write_budget:
        urgency = None
    if urgency is None and within_write_budget and "cpuSeconds" in desired and "cpuSeconds" not in written:
        urgency = "usage"
    if urgency is None:
        writes.urgency = None
        return None
    if writes.urgency != urgency:
        writes.urgency, writes.since = urgency, now
    delay = {
        "now": 0.0,
        "completed": settings.completed_delay,
        "admitted": settings.admitted_delay,
        "lost": settings.lost_delay,
        "queued": settings.queued_delay,
        "waiting": settings.waiting_delay,
        "counts": settings.counts_delay,
        "usage": settings.usage_delay,
    }[urgency]
    return max(writes.since + delay, writes.last + settings.write_interval)


def _urgency(written: Mapping[str, Any], desired: StatusBody) -> str | None:
    """How urgent the difference is; None if there is none."""
    before = {c["type"]: c for c in written.get("conditions") or ()}
    after = {c["type"]: c for c in desired["conditions"]}
    changed = {name for name, c in after.items() if before.get(name, {}).get("status") != c["status"]}
    if SandboxCondition.FINISHED in changed:
        return "completed" if after[SandboxCondition.FINISHED]["reason"] == SandboxReason.COMPLETED else "now"
    if SandboxCondition.READY in changed and after[SandboxCondition.READY]["status"] == "True":
        return "now"
    if SandboxCondition.DEGRADED in changed:
        return "lost"
    if SandboxCondition.ADMITTED in changed and after[SandboxCondition.ADMITTED]["status"] == "True":
        if desired["replicas"]:
            return "admitted"
        return "waiting" if after[SandboxCondition.READY]["reason"] == SandboxReason.POD_REJECTED else "queued"
    if any(before.get(name, {}).get("reason") != c["reason"] for name, c in after.items()):
        return "waiting"
    return "counts" if any(written.get(name) != desired[name] for name in COUNTS) else None
