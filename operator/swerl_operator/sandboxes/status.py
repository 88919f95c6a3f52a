"""The status of a group, and when it is worth a write.

Guarantees: a status that says nothing new is never written; news wait for each other (an admission for the first
Pods, counts for a condition), so that a group of four costs two or three writes over its life; CPU-seconds travel with
other news, and are worth one write at most by themselves; `lastTransitionTime` moves only with its condition. Pure:
time is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from swerl_api import names
from swerl_api.conditions import (
    Condition,
    ConditionStatus,
    SandboxCondition,
    SandboxReason,
    find_condition,
    set_condition,
)

from .decide import Decision, Tally, View, last_words, pull_fails, tally
from .parsed import Group, Pod, PodState, timestamp
from .settings import SandboxSettings

Status = dict[str, Any]
COUNTS = ("replicas", "ready", "running", "finished", "failed")


def conditions_of(status: Mapping[str, Any]) -> list[Condition]:
    """The conditions of a raw status."""
    return [Condition.model_validate(c) for c in status.get("conditions") or ()]


def finished_at(group: Group) -> str | None:
    """When the group's written status says it finished."""
    found = find_condition(conditions_of(group.status), SandboxCondition.FINISHED)
    return found.last_transition_time if found is not None and found.status == "True" else None


def was_admitted(group: Group) -> bool:
    """Whether the group's written status says that it was let in."""
    found = find_condition(conditions_of(group.status), SandboxCondition.ADMITTED)
    return found is not None and found.status == "True"


def desired(view: View, decision: Decision) -> Status:
    """The status that describes `view`, as the API takes it."""
    counts = tally(view)
    admitted, ready, finished = _admitted(view), _ready(view, counts, decision), decision.finished
    degraded = _degraded(view, counts)
    conditions = conditions_of(view.group.status)
    marks: list[tuple[str, ConditionStatus, str, str]] = [
        (SandboxCondition.ADMITTED, *admitted),
        (SandboxCondition.READY, *ready),
    ]
    if degraded is not None:
        marks.append((SandboxCondition.DEGRADED, "True", *degraded))
    if finished is not None:
        marks.append((SandboxCondition.FINISHED, "True", *finished))
    for type_, status, reason, message in marks:
        conditions = set_condition(
            conditions, type_, status, reason, message, generation=view.group.generation, time=timestamp(view.now)
        )
    return {
        "phase": _phase(admitted[0], ready[0], finished),
        "replicas": counts.created,
        "ready": counts.ready,
        "running": counts.running,
        "finished": counts.finished,
        "failed": counts.failed,
        **_waits(view, ready[0]),
        **_cpu_seconds(view, over=finished is not None),
        "conditions": [c.model_dump(by_alias=True, exclude_none=True) for c in conditions],
        "observedGeneration": view.group.generation,
    }


def _admitted(view: View) -> tuple[ConditionStatus, str, str]:
    gated = _waiting_for(view, SandboxReason.SCHEDULING_GATED)
    if gated:
        return "False", SandboxReason.SCHEDULING_GATED, _gate_message(view, gated[0])
    if not view.created and view.refusal is not None and view.refusal[0] == SandboxReason.WAITING_FOR_CAPACITY:
        return "False", *view.refusal
    if view.created > 0 or (view.admitted and view.isolated):
        return "True", SandboxReason.ADMITTED, ""
    if view.admitted:
        return (
            "False",
            SandboxReason.WAITING_FOR_ISOLATION,
            "the namespace's NetworkPolicy is not in place; the operator's log says why",
        )
    if view.others_first:
        return (
            "False",
            SandboxReason.WAITING_FOR_CAPACITY,
            "all sandboxes that the operator allows (--sandbox-limit) are in use; jobs take turns, the smallest first",
        )
    return (
        "False",
        SandboxReason.WAITING_FOR_CAPACITY,
        f"older groups of this job use its {view.group.spec.max_concurrent} sandboxes; this one follows in order",
    )


def _ready(view: View, counts: Tally, decision: Decision) -> tuple[ConditionStatus, str, str]:
    if decision.finished is not None:
        return "False", decision.finished[0], ""
    # Once all were ready it stays so until the end: Pods leave one by one, and that is no news.
    before = find_condition(conditions_of(view.group.status), SandboxCondition.READY)
    if before is not None and before.status == "True":
        return "True", before.reason, before.message
    settled = counts.ready + counts.finished + counts.failed
    if counts.created >= view.group.spec.replicas > 0 and settled >= counts.created and counts.ready + counts.finished:
        return ("True", SandboxReason.ALL_READY, "") if view.doubt is None else ("False", *_doubted(view.doubt))
    return "False", *_why_not_ready(view)


def _why_not_ready(view: View) -> tuple[str, str]:
    failing = [pod for pod in view.pods.values() if pull_fails(pod)]
    if failing:
        return SandboxReason.PULLING_IMAGE, f"image {view.group.spec.image}: {failing[0].reason}, trying again"
    gated = _waiting_for(view, SandboxReason.SCHEDULING_GATED)
    if gated:
        return SandboxReason.SCHEDULING_GATED, _gate_message(view, gated[0])
    stuck = _waiting_for(view, SandboxReason.UNSCHEDULABLE)
    if stuck:
        return SandboxReason.UNSCHEDULABLE, _without_node(view, stuck)
    if view.refusal is not None:
        return view.refusal
    if not view.admitted:
        return SandboxReason.WAITING_FOR_CAPACITY, ""
    return SandboxReason.CREATING, ""


def _doubted(doubt: str) -> tuple[str, str]:
    return SandboxReason.NOT_ISOLATED if doubt else SandboxReason.VERIFYING_ISOLATION, doubt


def _waiting_for(view: View, reason: str) -> list[Pod]:
    """The Pods that have no node for this reason, those first that have waited longest."""
    found = [pod for pod in view.pods.values() if pod.state is PodState.WAITING and pod.reason == reason]
    return sorted(found, key=_since)


def _since(pod: Pod) -> float:
    return pod.waiting_since or pod.created


def _without_node(view: View, waiting: list[Pod]) -> str:
    """How many wait, since when the first of them does, and what the scheduler says of it."""
    first = waiting[0]
    number = f"{len(waiting)} of {view.group.spec.replicas} Pods"
    return f"{number} without a node, {first.name} since {timestamp(_since(first))}: {first.message}"


def _gate_message(view: View, gated: Pod) -> str:
    queue = view.group.labels.get(names.QUEUE_LABEL)
    whom = f"LocalQueue {queue}" if queue else "whoever put them there"
    text = f"scheduling gates hold its Pods ({gated.message}); they wait for {whom}"
    return f"{text}: {view.queue_words}"[:1024] if view.queue_words else text


def _degraded(view: View, counts: Tally) -> tuple[str, str] | None:
    """Why Pods were lost, or None while none was."""
    if not counts.reasons:
        return None
    before = find_condition(conditions_of(view.group.status), SandboxCondition.DEGRADED)
    if before is not None and set(counts.reasons) == {SandboxReason.POD_LOST}:
        return before.reason, before.message  # an earlier operator process knew more than the counts tell
    reason = counts.main_reason
    example = last_words(view, reason)
    text = f"{counts.failed} of {view.group.spec.replicas} Pods were lost: {counts.losses}"
    return reason, (f"{text}; {example}" if example else text)[:1024]


def _cpu_seconds(view: View, *, over: bool) -> dict[str, float]:
    """Told only once the group has worked: what its start used, told with that news, might be the last word."""
    ready = find_condition(conditions_of(view.group.status), SandboxCondition.READY)
    worked = over or (ready is not None and ready.status == "True")
    known = max(view.cpu_seconds if worked else 0.0, float(view.group.status.get("cpuSeconds") or 0.0))
    return {"cpuSeconds": round(known, 1)} if known else {}


def _waits(view: View, ready: str) -> dict[str, dict[str, float]]:
    """Where the time until ready went, told with the news that the group is ready."""
    known = view.group.status.get("waits")
    started = {pod.uid: pod.milestones for pod in view.pods.values() if pod.milestones is not None}
    if known or ready != "True" or not started:
        return {"waits": known} if known else {}
    found = started.values()
    pulls = {uid: view.pulls[uid] for uid in started if uid in view.pulls}
    heard = [started[uid].started - started[uid].prepared - pull for uid, pull in pulls.items()]
    parts = {
        "queueSeconds": [m.created - view.group.created for m in found],
        "scheduleSeconds": [m.scheduled - m.created for m in found],
        "prepareSeconds": [m.prepared - m.scheduled for m in found],
        "pullSeconds": list(pulls.values()),
        "startSeconds": heard or [m.started - m.prepared for m in found],
    }
    return {"waits": {name: round(max(0.0, fmean(values)), 1) for name, values in parts.items() if values}}


def _phase(admitted: str, ready: str, finished: tuple[str, str] | None) -> str:
    if finished is not None:
        return "Finished" if finished[0] == SandboxReason.COMPLETED else "Failed"
    if ready == "True":
        return "Ready"
    return "Admitted" if admitted == "True" else "Pending"


@dataclass
class Writes:
    """What was written of one group, and since when there is news."""

    count: int = 0
    last: float = float("-inf")
    news: str | None = None  # how urgent what is not written yet is
    since: float = 0.0


def due(
    writes: Writes, written: Mapping[str, Any], wanted: Status, replicas: int, now: float, settings: SandboxSettings
) -> float | None:
    """When to write `wanted` over `written` (epoch seconds); None if it says nothing new. Keeps `writes` up to date."""
    kind, room = _news(written, wanted), writes.count < max(2, replicas - 2)
    if kind == "counts" and not room:
        kind = None
    if kind is None and room and "cpuSeconds" in wanted and "cpuSeconds" not in written:
        kind = "usage"
    if kind is None:
        writes.news = None
        return None
    if writes.news != kind:
        writes.news, writes.since = kind, now
    delay = {
        "now": 0.0,
        "completed": settings.completed_delay,
        "admitted": settings.admitted_delay,
        "lost": settings.lost_delay,
        "queued": settings.queued_delay,
        "waiting": settings.waiting_delay,
        "counts": settings.counts_delay,
        "usage": settings.usage_delay,
    }[kind]
    return max(writes.since + delay, writes.last + settings.write_interval)


def _news(written: Mapping[str, Any], wanted: Status) -> str | None:
    """How urgent the difference is; None if there is none."""
    before = {c["type"]: c for c in written.get("conditions") or ()}
    after = {c["type"]: c for c in wanted["conditions"]}
    turned = {name for name, c in after.items() if before.get(name, {}).get("status") != c["status"]}
    if SandboxCondition.FINISHED in turned:
        return "completed" if after[SandboxCondition.FINISHED]["reason"] == SandboxReason.COMPLETED else "now"
    if SandboxCondition.READY in turned and after[SandboxCondition.READY]["status"] == "True":
        return "now"
    if SandboxCondition.DEGRADED in turned:
        return "lost"
    if SandboxCondition.ADMITTED in turned and after[SandboxCondition.ADMITTED]["status"] == "True":
        return "admitted" if wanted["replicas"] else "queued"
    if any(before.get(name, {}).get("reason") != c["reason"] for name, c in after.items()):
        return "waiting"
    return "counts" if any(written.get(name) != wanted[name] for name in COUNTS) else None
