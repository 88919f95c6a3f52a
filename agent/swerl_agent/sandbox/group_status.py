"""What the status of a SweSandbox and its Pod means for a claim: why it waits, how it ended, how long it took. Pure."""

from __future__ import annotations

from typing import Any

from swerl_api.conditions import SandboxReason

from .errors import PodGone, SandboxError
from .pod import LOSS_ERRORS, waiting_for, waiting_reason

Json = dict[str, Any]

NO_CAPACITY = (SandboxReason.WAITING_FOR_CAPACITY, SandboxReason.UNSCHEDULABLE, SandboxReason.SCHEDULING_GATED)


def terminal_error(group: Json | None) -> SandboxError | None:
    """The error of a group that has ended, else None; its message names the group."""
    status = (group or {}).get("status") or {}
    if group is None or status.get("phase") not in ("Failed", "Finished"):
        return None
    reason, message = _condition(status, "Finished")
    metadata = group["metadata"]
    kind = LOSS_ERRORS.get(reason, PodGone)
    return kind(f"SweSandbox {metadata.get('namespace')}/{metadata['name']} ended: {reason} {message}".rstrip())


def waiting_message(name: str, group: Json | None, pod: Json | None) -> str:
    """One line on what `pod` of the group `name` waits for."""
    if pod is not None:
        gated = SandboxReason.SCHEDULING_GATED
        reported = dict(_blocking_conditions((group or {}).get("status") or {})).get(gated, "")
        return f"{gated}: {reported}" if reported and waiting_reason(pod)[0] == gated else waiting_for(pod)
    if group is None:
        return f"the SweSandbox {name} does not exist"
    status = group.get("status") or {}
    why = next((message for _, message in _blocking_conditions(status) if message), "")
    return f"no Pod yet; SweSandbox {name} is {status.get('phase') or 'not seen by the operator'}: {why}".rstrip(": ")


def lacks_capacity(group: Json | None, pod: Json | None) -> bool:
    """Whether Pod or group wait for capacity: admission, a queue, a node."""
    if pod is not None:
        return waiting_reason(pod)[0] in NO_CAPACITY
    return any(reason in NO_CAPACITY for reason, _ in _blocking_conditions((group or {}).get("status") or {}))


def start_seconds_by_part(group: Json | None) -> dict[str, float]:
    """Seconds of the group's start by part, e.g. `schedule` (see SandboxWaits); empty until reported."""
    reported = ((group or {}).get("status") or {}).get("waits") or {}
    return {name.removesuffix("Seconds"): seconds for name, seconds in reported.items()}


def _blocking_conditions(status: Json) -> list[tuple[str, str]]:
    """Reasons and messages of the conditions that explain why a group has no Pods."""
    return [_condition(status, kind) for kind in ("Admitted", "Ready")]


def _condition(status: Json, kind: str) -> tuple[str, str]:
    """Reason and message of a condition."""
    found: Json = next((each for each in status.get("conditions") or [] if each["type"] == kind), {})
    return str(found.get("reason") or ""), str(found.get("message") or "")
