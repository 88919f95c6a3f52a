"""What a SweSandbox and its Pod, as last seen, say of a claim: why it waits, how it ended, what took its time. Pure."""

from __future__ import annotations

from typing import Any

from swerl_api.conditions import SandboxReason

from .errors import (
    Evicted,
    ImagePullFailed,
    LeaseExpired,
    LifetimeExceeded,
    NodeLost,
    OOMKilled,
    PodGone,
    SandboxError,
)
from .pod import waiting_for, waiting_reason

Json = dict[str, Any]

# What the operator calls the end of a group.
ENDINGS: dict[str, type[SandboxError]] = {
    SandboxReason.EVICTED: Evicted,
    SandboxReason.IMAGE_PULL_FAILED: ImagePullFailed,
    SandboxReason.LEASE_EXPIRED: LeaseExpired,
    SandboxReason.LIFETIME_EXCEEDED: LifetimeExceeded,
    SandboxReason.NODE_LOST: NodeLost,
    SandboxReason.OOM_KILLED: OOMKilled,
    SandboxReason.PREEMPTED: Evicted,
}
NO_ROOM = (SandboxReason.WAITING_FOR_CAPACITY, SandboxReason.UNSCHEDULABLE, SandboxReason.SCHEDULING_GATED)


def ending(group: Json | None) -> SandboxError | None:
    """How the group ended, None while it has not; the message names it."""
    status = (group or {}).get("status") or {}
    if group is None or status.get("phase") not in ("Failed", "Finished"):
        return None
    reason, message = _condition(status, "Finished")
    metadata = group["metadata"]
    kind = ENDINGS.get(reason, PodGone)
    return kind(f"SweSandbox {metadata.get('namespace')}/{metadata['name']} ended: {reason} {message}".rstrip())


def waits_for(name: str, group: Json | None, pod: Json | None) -> str:
    """One line on what the group `name`, of which `pod` is asked for, waits for."""
    if pod is not None:
        held = SandboxReason.SCHEDULING_GATED
        told = dict(_obstacles((group or {}).get("status") or {})).get(held, "")
        return f"{held}: {told}" if told and waiting_reason(pod)[0] == held else waiting_for(pod)
    if group is None:
        return f"the SweSandbox {name} does not exist"
    status = group.get("status") or {}
    why = next((message for _, message in _obstacles(status) if message), "")
    return f"no Pod yet; SweSandbox {name} is {status.get('phase') or 'not seen by the operator'}: {why}".rstrip(": ")


def lacks_room(group: Json | None, pod: Json | None) -> bool:
    """Whether it is room that is waited for: admission, a queue, a node."""
    if pod is not None:
        return waiting_reason(pod)[0] in NO_ROOM
    return any(reason in NO_ROOM for reason, _ in _obstacles((group or {}).get("status") or {}))


def start_waits(group: Json | None) -> dict[str, float]:
    """Seconds of the group's start by part, e.g. `schedule` (see SandboxWaits); empty until the operator tells them."""
    told = ((group or {}).get("status") or {}).get("waits") or {}
    return {name.removesuffix("Seconds"): seconds for name, seconds in told.items()}


def _obstacles(status: Json) -> list[tuple[str, str]]:
    """Reasons and messages of a group that is not let in, or whose Pods are not made."""
    return [_condition(status, kind) for kind in ("Admitted", "Ready")]


def _condition(status: Json, kind: str) -> tuple[str, str]:
    """Reason and message of a condition."""
    found: Json = next((each for each in status.get("conditions") or [] if each["type"] == kind), {})
    return str(found.get("reason") or ""), str(found.get("message") or "")
