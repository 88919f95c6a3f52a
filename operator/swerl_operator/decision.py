"""What the decisions on jobs and on evaluations share: the deadline, the preflight, refusals and the clean-up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from swerl_api import JobCondition, JobReason, SweEvalSpec, SweRLJobSpec

from .checks.preflight import Preflight
from .owned import ForeignObject
from .problem import Problem
from .requeue import BLOCKED_SECONDS, STARTING_SECONDS, seconds_left
from .status_builder import StatusBuilder
from .times import age

Action = TypeVar("Action", bound=Enum)
BuilderT = TypeVar("BuilderT", bound=StatusBuilder[Any])


@dataclass(frozen=True)
class Decision(Generic[Action, BuilderT]):
    """Actions, then the status to write, then seconds until the next step (None: only when the object changes)."""

    actions: tuple[Action, ...]
    builder: BuilderT
    requeue_after: float | None

    def within(self, seconds: float | None) -> Decision[Action, BuilderT]:
        """The same, with the next step in at most `seconds`; None sets no limit."""
        if seconds is None or self.requeue_after is None:
            return self
        return replace(self, requeue_after=min(self.requeue_after, seconds))


def deadline_message(spec: SweRLJobSpec | SweEvalSpec, start_time: str | None) -> str:
    """Why an object failed at its deadline."""
    return f"activeDeadlineSeconds ({spec.active_deadline_seconds} s) passed since {start_time}"


def await_preflight(builder: BuilderT, preflight: Preflight, delete: Action) -> Decision[Action, BuilderT]:
    """Report what a preflight that has not passed waits for; `delete` it when it is outdated, or failed a while ago.

    A failed Pod stays for BLOCKED_SECONDS, with its log, and its reason is the object's meanwhile.
    """
    if preflight.problem is not None:
        builder.block(JobCondition.IMAGES_READY, preflight.problem)
    if preflight.state == "waiting":
        return Decision((), builder, STARTING_SECONDS)
    left = seconds_left(BLOCKED_SECONDS, preflight.ended, builder.now) or 0
    if preflight.state == "failed" and left > 0:
        return Decision((), builder, left)
    return Decision((delete,), builder, STARTING_SECONDS)


def refused(builder: BuilderT, error: Exception) -> Decision[Any, BuilderT]:
    """Report why the actions of a decision could not be performed."""
    reason = JobReason.FOREIGN_OBJECT if isinstance(error, ForeignObject) else JobReason.REQUEST_REFUSED
    builder.block(JobCondition.VALIDATED, Problem(reason, str(error)))
    return Decision((), builder, BLOCKED_SECONDS)


def stop(builder: BuilderT, leftovers: int, delete_everything: Action) -> Decision[Action, BuilderT]:
    """Delete what is left, then wait for a change of the object."""
    if leftovers:
        return Decision((delete_everything,), builder, STARTING_SECONDS)
    return Decision((), builder, None)


def clean_up(
    spec: SweRLJobSpec | SweEvalSpec,
    builder: BuilderT,
    leftovers: int,
    delete_everything: Action,
    delete_object: Action,
) -> Decision[Action, BuilderT]:
    """A finished object: only its conditions stay, and those only for the time to live."""
    if leftovers or spec.ttl_seconds_after_finished is None:
        return stop(builder, leftovers, delete_everything)
    remaining = spec.ttl_seconds_after_finished - age(builder.previous.completion_time, builder.now)
    return Decision((), builder, remaining) if remaining > 0 else Decision((delete_object,), builder, None)
