"""Which changed conditions of a group become Events.

Guarantees: one Event per change of a condition's reason; a group whose Pods all end by their client's request has none;
the end of a group is not reported a second time as a loss. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swerl_api.conditions import Condition, SandboxCondition, SandboxReason

from ..status_builder import condition_changed
from .parsed import parse_conditions

WAITING = (
    SandboxReason.UNSCHEDULABLE,
    SandboxReason.SCHEDULING_GATED,
    SandboxReason.SIDECAR_NOT_READY,
    SandboxReason.NOT_ISOLATED,
)


def conditions_for_events(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Condition]:
    """Conditions of the status `after` that become Events and differ from the status `before`."""
    previous = parse_conditions(before)
    changed = [c for c in parse_conditions(after) if _becomes_event(c) and condition_changed(previous, c)]
    return [c for c in changed if c.type == SandboxCondition.FINISHED] or changed


def _becomes_event(condition: Condition) -> bool:
    if condition.type == SandboxCondition.FINISHED:
        return condition.reason != SandboxReason.COMPLETED
    if condition.type == SandboxCondition.READY:
        return condition.status == "False" and condition.reason in WAITING
    return condition.type == SandboxCondition.DEGRADED
