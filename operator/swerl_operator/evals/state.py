"""What is observed of a SweEval, and what is decided: the two ends of `decision`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from swerl_api import EvalProgress

from ..jobs.attempt import Object
from ..jobs.preflight import Preflight
from ..jobs.problem import Problem
from ..jobs.ray_jobs import Driver
from .draft import Draft

UNREACHABLE = Driver("unreachable")


class Action(Enum):
    """What the shell does, in this order."""

    DELETE_EVERYTHING = auto()  # Jobs, Pods, engines, sandboxes; the results stay
    DELETE_SHARDS = auto()
    DELETE_ENGINES = auto()
    DELETE_PREFLIGHT = auto()
    ENSURE_ACCOUNT = auto()  # ServiceAccount, RoleBinding, evaluation file
    CREATE_PREFLIGHT = auto()
    CREATE_ENGINES = auto()
    SUBMIT = auto()
    CREATE_SHARDS = auto()
    CREATE_MERGE = auto()
    DELETE_EVALUATION = auto()


@dataclass(frozen=True)
class Engines:
    """The engines of an evaluation; the head's Pod is one of `pods`."""

    submission: str  # id of the process that keeps them
    cluster: Object | None = None
    pods: Sequence[Object] = ()
    driver: Driver = UNREACHABLE
    serving: int = 0  # engines that the router sends requests to
    silence: float = 0.0  # seconds since Ray last answered


@dataclass(frozen=True)
class Observed:
    """The world of one evaluation. None means: not there, or not looked at because the decision does not need it."""

    now: datetime
    leftovers: int = 0  # objects that must go: of a finished or suspended evaluation, or of an earlier one of this name
    prerequisites: Sequence[Problem] = ()
    images: Problem | None = None  # of the SweImageSet the sandboxes wait for
    preflight: Preflight | None = None
    engines: Engines | None = None  # None: the model has an endpoint
    shards: Object | None = None  # the Indexed Job
    merge: Object | None = None
    pods: Sequence[Object] = ()  # of shards and merge
    parts: Sequence[EvalProgress] = ()  # of the shards
    whole: EvalProgress | None = None  # what the merge found
    checkpoint: str | None = None  # that will be evaluated


@dataclass(frozen=True)
class Decision:
    """Actions, then the status to write, then seconds until the next look (None: only when something changes)."""

    actions: tuple[Action, ...]
    draft: Draft
    again: float | None
