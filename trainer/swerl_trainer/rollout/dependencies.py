"""The dependencies of a rollout worker: protocols where tests substitute them; `cluster` has those on Kubernetes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from swerl_agent.episode import Agent, Episode, TokenSegment
from swerl_agent.grading import Verdict
from swerl_agent.judge import Judge
from swerl_agent.sandbox import NodeCounts, Session
from swerl_agent.tasks import Task
from swerl_api import AlgorithmSpec, SandboxSpec
from swerl_trainer.rollout.tracing import RolloutTracer


class DeclaredGroup(Protocol):
    """The sandboxes of one declared group, numbered from 0."""

    @property
    def age(self) -> float:
        """Seconds of its lifetime that the oldest unclaimed sandbox has used."""
        ...

    @property
    def idle_seconds(self) -> float:
        """Seconds, summed over the sandboxes, from ready to claimed or removed."""
        ...

    @property
    def waits(self) -> Mapping[str, float]:
        """Seconds of the group's start by part; empty until they are known."""
        ...

    async def claim(self, ordinal: int) -> Session:
        """The open session of one sandbox, as soon as it is ready. Raises SandboxError."""
        ...

    async def release(self, ordinal: int) -> None:
        """Close its session and remove one sandbox; no-op when it is gone."""
        ...

    async def delete(self) -> None:
        """Remove the group with all its sandboxes; no-op when it is gone."""
        ...


class Sandboxes(Protocol):
    """Makes groups of sandboxes."""

    async def declare(self, name: str, task: Task, replicas: int) -> DeclaredGroup:
        """Request the sandboxes; they become ready later. Raises SandboxError or a KubeError."""
        ...

    def counts(self) -> tuple[int, int]:
        """Sandboxes of this worker that are (pending, ready)."""
        ...

    def by_node(self) -> NodeCounts:
        """Sandboxes of the whole job; empty until this worker watches them."""
        ...


class Grading(Protocol):
    """Grades patches."""

    async def grade(self, task: Task, patch: str, *, fresh: bool = False, image: str = "") -> Verdict:
        """The verdict on `patch`; an infrastructure failure is a verdict too.

        `fresh`: never a cached verdict. `image`: the task's image as a node resolved it.
        """
        ...


@dataclass
class WorkerDependencies:
    """Everything that a worker uses."""

    tasks: Mapping[str, Sequence[Task]]  # by purpose: train, evaluation
    sandboxes: Sandboxes
    grading: Grading
    agent: Agent
    artifacts: Path
    sandbox_name: Callable[[str], str]  # of a group and its start
    max_age: float = math.inf  # seconds of its lifetime that a prefetched sandbox may have used when its episode starts
    algorithm: AlgorithmSpec = field(default_factory=AlgorithmSpec)
    judge: Judge | None = None  # scores the steps of training episodes
    encode: Callable[[Episode], Sequence[TokenSegment]] | None = None  # segments to train on
    workdir: str = SandboxSpec.model_fields["workdir"].default  # folder of the repository in task images
    sampling: Mapping[str, float] = field(default_factory=dict)  # parameters beside the temperature, for the artifacts
    model: str = ""  # its name, for the artifacts
    tracer: RolloutTracer | None = None
    api_writes: Callable[[], int] = lambda: 0  # requests so far that change objects of the Kubernetes API
