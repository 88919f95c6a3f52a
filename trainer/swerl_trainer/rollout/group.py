"""What travels between dispatcher, runner and workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal

from swerl_agent.episode import TokenSegment

Purpose = Literal["train", "evaluation"]


@dataclass(frozen=True)
class GroupOrder:
    """What a worker needs to know to work on a group; the same for every try."""

    id: str  # unique within an attempt; part of the SweSandbox's name
    purpose: Purpose
    task: int  # position in the worker's list of training (or held-out) tasks
    size: int  # members, and sandboxes
    step: int  # training step it is meant for, for the artifacts' folder; -1 until it is started
    temperature: float


@dataclass(frozen=True)
class Rollout:
    """One graded episode, as the driver sees it."""

    group: str
    index: int
    instance_id: str
    valid: bool  # False when infrastructure, not the policy, ended it
    outcome: float = 0.0  # of the whole episode, +1 or -1
    reward: float = 0.0  # outcome, and the judge's mean score with its weight
    step_scores: Mapping[int, float] = field(default_factory=dict)  # the judge's, by answer; -1 to 1
    unscored_steps: int = 0  # that the judge was asked about and gave no score
    resolved: bool = False
    verdict: str = ""  # verdict of the grading, "" when nothing was graded
    exit_status: str = ""
    patch_source: str = ""
    error: str = ""
    error_code: str = ""
    cached: bool = False  # the verdict came from the cache
    uncontrasted: bool = False  # resolved by a task whose tests have no alteration that could confirm it
    segments: Sequence[TokenSegment] = ()  # the tokens, anew from each point where turns were left out of the context
    turns: int = 0
    steps: int = 0  # commands
    format_errors: int = 0
    omitted_turns: int = 0
    repeats: bool = False  # the model ended in a loop
    suspicions: frozenset[str] = frozenset()  # rules of the audit that its commands break
    timeouts: int = 0  # commands that their time limit ended
    exec_retries: int = 0  # streams into the sandbox that were lost and opened anew
    handshake_errors: int = 0  # tries to open one that failed
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase: wait, total, model, environment, grading
    waits: Mapping[str, float] = field(default_factory=dict)  # seconds of the sandbox's start by part, see SandboxWaits
    usage: Mapping[str, float] = field(default_factory=dict)  # what the engine said of its requests, see Generation

    @property
    def sampled_tokens(self) -> int:
        """Tokens the policy sampled."""
        return sum(sum(segment.loss_mask) for segment in self.segments)

    @property
    def weight_versions(self) -> set[int]:
        """Versions of the weights that sampled its tokens."""
        said = {version for segment in self.segments for version, _, _ in segment.weight_versions}
        return {int(version) for version in said if version.isdecimal()}


@dataclass(frozen=True)
class TaskCounts:
    """How many tasks a worker found."""

    train: int
    evaluation: int


@dataclass(frozen=True)
class Waste:
    """Sandboxes that were made ahead and that no episode used."""

    groups: int = 0
    pod_seconds: float = 0.0  # that they waited, ready

    def __add__(self, other: Waste) -> Waste:
        return Waste(self.groups + other.groups, self.pod_seconds + other.pod_seconds)


class Phase(Enum):
    """Where a group is."""

    PLANNED = auto()
    DECLARED = auto()  # its sandboxes are being made, ahead of need
    RUNNING = auto()
    KEPT = auto()  # complete, waiting for a step
    CLOSED = auto()  # trained, or dropped


@dataclass
class Group:
    """One prompt's rollouts on their way through the dispatcher."""

    order: GroupOrder
    position: int  # in the task order; -1 for evaluation
    phase: Phase = Phase.PLANNED
    version: int = -1  # weights it was started with
    tries: int = 0  # times members were started
    running: set[int] = field(default_factory=set)
    acting: set[int] = field(default_factory=set)  # of these: have a sandbox still, or wait for one
    rollouts: dict[int, Rollout] = field(default_factory=dict)

    @property
    def valid(self) -> list[Rollout]:
        """Rollouts that count."""
        return [rollout for rollout in self.rollouts.values() if rollout.valid]

    @property
    def failed(self) -> tuple[int, ...]:
        """Members that infrastructure ended."""
        return tuple(index for index, rollout in sorted(self.rollouts.items()) if not rollout.valid)


@dataclass(frozen=True)
class Declare:
    """Make the sandboxes of a group before they are needed."""

    order: GroupOrder


@dataclass(frozen=True)
class Start:
    """Run these members of a group now; try 0 uses the declared sandboxes, a later try new ones."""

    order: GroupOrder
    members: tuple[int, ...]
    attempt: int


@dataclass(frozen=True)
class Discard:
    """Stop what runs of a group and remove its sandboxes."""

    order: GroupOrder


Action = Declare | Start | Discard
