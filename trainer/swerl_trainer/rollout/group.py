"""What travels between dispatcher, runner and workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from swerl_agent.episode import TokenSegment
from swerl_agent.tasks import Purpose


@dataclass(frozen=True)
class GroupRequest:
    """What a worker needs to run a group; the same for every retry."""

    id: str  # unique within an attempt; part of the SweSandbox's name
    purpose: Purpose
    task: int  # position in the worker's list of training (or held-out) tasks
    size: int  # members, and sandboxes
    step: int  # training step that its artifacts are filed under; -1 until the group is started
    temperature: float


@dataclass(frozen=True)
class Rollout:
    """One graded episode, as the driver sees it."""

    group: str
    index: int
    instance_id: str
    valid: bool  # False when infrastructure, not the policy, ended it
    outcome: float = 0.0  # of the whole episode: 1, or algorithm.unresolvedReward
    reward: float = 0.0  # outcome plus the weighted mean of the judge's scores
    step_scores: Mapping[int, float] = field(default_factory=dict)  # the judge's, by answer; -1 to 1
    unscored_steps: int = 0  # steps without a score from the judge
    resolved: bool = False
    verdict: str = ""  # verdict of the grading, "" when nothing was graded
    exit_status: str = ""
    patch_source: str = ""
    error: str = ""
    error_code: str = ""  # of what ended it: infrastructure, or its own commands with exit status sandbox_destroyed
    cached: bool = False  # the verdict came from the cache
    uncontrasted: bool = False  # resolved by a task whose tests have no alteration that could confirm it
    segments: Sequence[TokenSegment] = ()  # one per context; a new one where turns were left out
    turns: int = 0
    commands: int = 0  # commands that the agent ran
    format_errors: int = 0
    omitted_turns: int = 0
    repeats: bool = False  # the model ended in a loop
    suspicions: frozenset[str] = frozenset()  # audit rules that its commands break
    timeouts: int = 0  # commands that timed out
    exec_retries: int = 0  # streams to the sandbox that were lost and reopened
    handshake_errors: int = 0  # failed handshakes of such streams
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase: wait, total, model, environment, grading
    waits: Mapping[str, float] = field(default_factory=dict)  # seconds of the sandbox's start by part, see SandboxWaits
    usage: Mapping[str, float] = field(default_factory=dict)  # what the engine reports on its requests, see Generation

    @property
    def sampled_tokens(self) -> int:
        """Tokens the policy sampled."""
        return sum(sum(segment.loss_mask) for segment in self.segments)

    @property
    def weight_versions(self) -> set[int]:
        """Versions of the weights that sampled its tokens."""
        versions = {version for segment in self.segments for version, _, _ in segment.weight_versions}
        return {int(version) for version in versions if version.isdecimal()}


@dataclass(frozen=True)
class TaskCounts:
    """Tasks that a worker found."""

    train: int
    evaluation: int


@dataclass(frozen=True)
class UnusedPrefetch:
    """Prefetched sandboxes that no episode used."""

    groups: int = 0
    pod_seconds: float = 0.0  # from ready to removed, summed over the Pods

    def __add__(self, other: UnusedPrefetch) -> UnusedPrefetch:
        return UnusedPrefetch(self.groups + other.groups, self.pod_seconds + other.pod_seconds)


class GroupPhase(Enum):
    """The state of a group."""

    PLANNED = auto()
    DECLARED = auto()  # its sandboxes are prefetched
    RUNNING = auto()
    COMPLETE = auto()  # complete, waiting for a step
    CLOSED = auto()  # trained, or dropped


@dataclass
class GroupState:
    """The dispatcher's record of one prompt's rollouts."""

    request: GroupRequest
    position: int  # in the task order; -1 for evaluation
    phase: GroupPhase = GroupPhase.PLANNED
    version: int = -1  # weights it was started with
    starts: int = 0  # how often members were started
    running: set[int] = field(default_factory=set)
    in_sandbox: set[int] = field(default_factory=set)  # of the running members: have a sandbox or wait for one
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
class StepGroups:
    """The groups of one training step; what was started is trained, dropped or carried over."""

    groups: tuple[GroupState, ...]  # to train on, in task order
    filtered: tuple[GroupState, ...]  # complete, without signal: counted in the metrics, not trained
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason -> groups, since the last step
    started: int = 0  # groups, since the last step
    carried_over: int = 0  # groups that run or wait for a later step
    limit: int | None = None  # groups that may run at once, see AdaptiveConcurrency
    episodes: int = 0  # training episodes that ended since the last step, retries included
    lost: Mapping[str, int] = field(default_factory=dict)  # error code -> those of them that infrastructure ended


@dataclass(frozen=True)
class DeclareGroup:
    """Prefetch the sandboxes of a group."""

    request: GroupRequest


@dataclass(frozen=True)
class StartMembers:
    """Run these members of a group now; retry 0 uses the prefetched sandboxes, a later one new sandboxes."""

    request: GroupRequest
    members: tuple[int, ...]
    retry: int


@dataclass(frozen=True)
class DiscardGroup:
    """Stop the members of a group and remove its sandboxes."""

    request: GroupRequest


DispatchAction = DeclareGroup | StartMembers | DiscardGroup
