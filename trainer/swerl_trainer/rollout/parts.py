"""What a worker needs around an episode, as protocols: the Kubernetes ones are in `cluster`, tests bring their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from swerl_agent.grading import Verdict
from swerl_agent.sandbox import Session
from swerl_agent.tasks import Task


class SandboxGroup(Protocol):
    """The sandboxes of one group, numbered from 0."""

    @property
    def age(self) -> float:
        """Seconds that the oldest sandbox which waits to be claimed has used of its lifetime."""
        ...

    @property
    def idle_seconds(self) -> float:
        """Seconds, over all sandboxes, that they waited, ready, until they were claimed or let go."""
        ...

    @property
    def waits(self) -> Mapping[str, float]:
        """Seconds of the group's start by part; empty while they are not known."""
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

    async def declare(self, name: str, task: Task, replicas: int) -> SandboxGroup:
        """Ask for the sandboxes; they become ready later. Raises SandboxError or a KubeError."""
        ...

    def counts(self) -> tuple[int, int]:
        """Sandboxes of this worker that are (pending, ready)."""
        ...


class Grading(Protocol):
    """Grades patches."""

    async def grade(self, task: Task, patch: str, *, fresh: bool = False) -> Verdict:
        """The verdict on `patch`; infrastructure failures come as a verdict too. `fresh`: never one that was kept."""
        ...
