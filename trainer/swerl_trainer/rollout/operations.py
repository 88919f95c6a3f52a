"""The operations of a rollout worker, wherever it runs: `worker.Worker` does them, `actor.RayWorker` forwards them."""

from __future__ import annotations

from typing import Protocol

from swerl_agent.grading import Verdict
from swerl_agent.sandbox import NodeCounts
from swerl_trainer.rollout.group import GroupRequest, Rollout, TaskCounts, UnusedPrefetch


class RolloutWorker(Protocol):
    """Runs the episodes of groups and grades them."""

    async def prepare(self) -> TaskCounts:
        """The number of tasks, once the worker is ready."""
        ...

    async def declare(self, request: GroupRequest, members: tuple[int, ...], retry: int) -> None:
        """Request the sandboxes of a start; `run_episode` uses them. No-op when they are declared already."""
        ...

    async def run_episode(self, request: GroupRequest, members: tuple[int, ...], index: int, retry: int) -> None:
        """Run one member of a group as long as it needs its sandbox; `rollout` returns the result."""
        ...

    async def rollout(self, request: GroupRequest, index: int, retry: int) -> Rollout:
        """The graded result of a member that `run_episode` started; an episode's failure is a result, not an error."""
        ...

    async def discard(self, request: GroupRequest) -> None:
        """Stop the members of a group and remove its sandboxes."""
        ...

    async def counts(self) -> dict[str, int]:
        """Number of `pending` and `ready` sandboxes, of patches in `grading`, and of `api_writes` since its start."""
        ...

    async def sandboxes_by_node(self) -> NodeCounts:
        """Sandboxes of the whole job, of all workers; empty until this worker watches them."""
        ...

    async def unused_prefetch(self) -> UnusedPrefetch:
        """Prefetched sandboxes that no episode used, since the worker started."""
        ...

    async def grade_reference_fix(self, task: int) -> Verdict | None:
        """The verdict on the reference fix of a training task, never a cached one; None where the task has no fix."""
        ...

    async def close(self) -> None:
        """Stop everything and remove all sandboxes of this worker."""
        ...
