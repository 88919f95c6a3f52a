"""Which news of a group become Events, so that `kubectl describe` tells its story.

Guarantees: an Event repeats what a condition says, once per change of its reason; a group whose life is as its client
wished has none; what is told as the group's end is not told a second time as a loss. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swerl_api.conditions import Condition, SandboxCondition, SandboxReason, find_condition

from .status import conditions_of

WAITING = (SandboxReason.UNSCHEDULABLE, SandboxReason.SCHEDULING_GATED, SandboxReason.NOT_ISOLATED)


def announcements(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Condition]:
    """Conditions of the status `after` that say something worth an Event and that `before` did not say."""
    known, told = conditions_of(before), conditions_of(after)
    news = [found for found in told if _worth_telling(found) and _is_new(found, known)]
    if any(found.type == SandboxCondition.FINISHED for found in news):
        return [found for found in news if found.type == SandboxCondition.FINISHED]
    return news


def _worth_telling(condition: Condition) -> bool:
    if condition.type == SandboxCondition.FINISHED:
        return condition.reason != SandboxReason.COMPLETED
    if condition.type == SandboxCondition.READY:
        return condition.status == "False" and condition.reason in WAITING
    return condition.type == SandboxCondition.DEGRADED


def _is_new(condition: Condition, known: list[Condition]) -> bool:
    earlier = find_condition(known, condition.type)
    return earlier is None or (earlier.status, earlier.reason) != (condition.status, condition.reason)
