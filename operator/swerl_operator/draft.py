"""A status being written: changed step by step, then written as the patch that follows from it.

Guarantees: the patch touches only fields that changed, of those the operator owns; a status that says nothing new is
not written; a write that would overwrite a newer one is refused by the server.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from swerl_api import API_VERSION, Condition, SweEvalStatus, SweRLJobStatus, find_condition, set_condition
from swerl_api.base import faults
from swerl_api.conditions import ConditionStatus

from .errors import Conflict, NotFound
from .kube import Kube, Object

Status = TypeVar("Status", SweRLJobStatus, SweEvalStatus)


class StatusDraft(Generic[Status]):
    """A status of generation `generation` at time `now`; only the fields `owned` are written, all when it is None."""

    owned: Collection[str] | None = None

    def __init__(self, status: Status, generation: int, now: datetime) -> None:
        self.before: Status = status
        self.status: Status = status.model_copy(deep=True)
        self.status.observed_generation = generation
        self._generation = generation
        self._time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._cleared: set[str] = set()

    def condition(self, type: str, status: ConditionStatus, reason: str, message: str = "") -> None:
        """Set one condition."""
        self.status.conditions = set_condition(
            self.status.conditions, type, status, reason, message, generation=self._generation, time=self._time
        )

    def patch(self) -> Object | None:
        """Merge patch of the status, or None when nothing changed."""
        old: Object = _dump(self.before)
        new: Object = _dump(self.status)
        owned = {*old, *new} if self.owned is None else self.owned
        changed: dict[str, Any] = {key: new.get(key) for key in sorted(owned) if old.get(key) != new.get(key)}
        changed |= {key: None for key in self._cleared if key in old}
        return {"status": changed} if changed else None

    def news(self) -> list[Condition]:
        """Conditions whose status or reason changed."""
        fresh = []
        for condition in self.status.conditions:
            old = find_condition(self.before.conditions, condition.type)
            if old is None or (old.status, old.reason) != (condition.status, condition.reason):
                fresh.append(condition)
        return fresh


async def write_status(api: Kube, resource: str, body: Object, patch: Object | None) -> bool:
    """Write `patch` onto the status of `body` as it was read; False when it changed meanwhile: look again."""
    if patch is None:
        return True
    metadata = body["metadata"]
    guarded = patch | {"metadata": {"resourceVersion": metadata["resourceVersion"]}}
    try:
        await api.patch(API_VERSION, resource, metadata["namespace"], metadata["name"], guarded, sub="status")
    except Conflict:
        return False
    except NotFound:
        return True
    return True


def unreadable_spec(error: ValidationError) -> str:
    """What to do when the API server holds a spec that this operator cannot read."""
    fields = faults(error, "spec.")
    return f"{fields}; the installed CRDs and the operator differ: apply crds/ of the operator's version"


def _dump(status: SweRLJobStatus | SweEvalStatus) -> Object:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
