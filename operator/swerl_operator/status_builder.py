"""Builds the status of a job or an evaluation step by step, and writes it as a merge patch.

Guarantees: the patch holds only fields that changed and that the operator owns; an unchanged status is not written; the
server refuses a write that would overwrite a newer one.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from swerl_api import (
    API_VERSION,
    Condition,
    SweEvalStatus,
    SweRLJobStatus,
    find_condition,
    is_condition_true,
    set_condition,
)
from swerl_api.base import format_validation_error
from swerl_api.conditions import ConditionStatus
from swerl_kube import Conflict, Json, KubeClient, NotFound

from .problem import Problem

StatusT = TypeVar("StatusT", SweRLJobStatus, SweEvalStatus)


class StatusBuilder(Generic[StatusT]):
    """The status for generation `generation` at time `now`; `owned` names the fields to write, None means all."""

    owned: Collection[str] | None = None

    def __init__(self, status: StatusT, generation: int, now: datetime) -> None:
        self.previous: StatusT = status
        self.status: StatusT = status.model_copy(deep=True)
        self.status.observed_generation = generation
        self._generation = generation
        self.now = now
        self._time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._cleared: set[str] = set()
        self._last_obstacle: str | None = None  # reason of the condition that was set to False last

    def condition(self, type: str, status: ConditionStatus, reason: str, message: str = "") -> None:
        """Set one condition."""
        if status == "False":
            self._last_obstacle = reason
        self.status.conditions = set_condition(
            self.status.conditions, type, status, reason, message, generation=self._generation, time=self._time
        )

    def block(self, type: str, problem: Problem) -> None:
        """`problem` blocks the object; condition `type` reports it."""
        self.condition(type, "False", problem.reason, problem.message)
        self.status.phase = "Blocked"

    def patch(self) -> Json | None:
        """Merge patch of the status, or None when nothing changed."""
        blocked = self.status.phase == "Blocked"
        self.status.reason = (self._last_obstacle or self.status.reason) if blocked else None
        old: Json = _dump(self.previous)
        new: Json = _dump(self.status)
        owned = {*old, *new} if self.owned is None else self.owned
        changed: dict[str, Any] = {key: new.get(key) for key in sorted(owned) if old.get(key) != new.get(key)}
        changed |= {key: None for key in self._cleared if key in old}
        return {"status": changed} if changed else None

    def changed_conditions(self) -> list[Condition]:
        """Conditions whose status or reason changed."""
        return [
            condition for condition in self.status.conditions if condition_changed(self.previous.conditions, condition)
        ]


def condition_changed(previous: list[Condition], condition: Condition) -> bool:
    """Whether the status or the reason of `condition` differs from that in `previous`."""
    old = find_condition(previous, condition.type)
    return old is None or (old.status, old.reason) != (condition.status, condition.reason)


def is_finished(status: SweRLJobStatus | SweEvalStatus) -> bool:
    """Whether the object is Complete or Failed."""
    return any(is_condition_true(status.conditions, type) for type in ("Complete", "Failed"))


async def write_status(api: KubeClient, resource: str, body: Json, patch: Json | None) -> bool:
    """Patch the status of `body` as it was read; False when the object changed meanwhile: reconcile it again."""
    if patch is None:
        return True
    metadata = body["metadata"]
    conditional = patch | {"metadata": {"resourceVersion": metadata["resourceVersion"]}}
    try:
        place = (resource, metadata["namespace"], metadata["name"])
        await api.patch(API_VERSION, *place, conditional, subresource="status")
    except Conflict:
        return False
    except NotFound:
        return True
    return True


def invalid_spec_message(error: ValidationError) -> str:
    """The message for a spec that the API server stored and this operator cannot read."""
    fields = format_validation_error(error, "spec.")
    return f"{fields}; the installed CRDs and the operator differ: apply crds/ of the operator's version"


def _dump(status: SweRLJobStatus | SweEvalStatus) -> Json:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
