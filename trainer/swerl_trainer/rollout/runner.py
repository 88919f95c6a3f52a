"""Executes the dispatcher's actions on the workers.

Guarantees: the dispatcher gets a result for every member that it started, also when the worker is lost; no episode
starts while no engine serves; decisions are made one after the other in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar, TypeVarTuple

from swerl_agent.episode import PROMPT_FAILED, NoRepository, PromptError
from swerl_agent.grading import Verdict
from swerl_agent.sandbox import ImagePullFailed, NodeCounts
from swerl_agent.tasks import Purpose, TaskError
from swerl_kube.logs import log_ids
from swerl_trainer.rollout.dispatcher import Dispatcher
from swerl_trainer.rollout.errors import RolloutsFailed, TaskImagesMissing
from swerl_trainer.rollout.group import (
    DeclareGroup,
    DiscardGroup,
    DispatchAction,
    GroupRequest,
    Rollout,
    StartMembers,
    StepGroups,
    UnusedPrefetch,
)
from swerl_trainer.rollout.operations import RolloutWorker

logger = logging.getLogger(__name__)
T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
WORKER_LOST = "worker_lost"
WORKER_SECONDS = 5.0  # in which a worker says where its sandboxes are
IMAGE_REMEDY = (
    "push the images, correct their names in the tasks or by spec.sandbox.registryRewrite, or give "
    "spec.sandbox.pullSecrets, then create the job again"
)


class RolloutMetrics(Protocol):
    """Counts what the runner sees; see `DriverMetrics`."""

    def episode(self, purpose: Purpose, rollout: Rollout) -> None: ...

    def groups(self, load: Mapping[str, int]) -> None: ...

    def counts(self, counts: Mapping[str, int]) -> None: ...


class RolloutRunner:
    """Executes actions and waits for what they bring about."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        workers: Sequence[RolloutWorker],
        *,
        serving: Callable[[], Awaitable[None]],
        metrics: RolloutMetrics,
    ) -> None:
        self.dispatcher = dispatcher
        self._metrics = metrics
        self._workers = list(workers)
        self._serving = serving
        self._worker_of_group: dict[str, RolloutWorker] = {}
        self._next = 0
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def step(self) -> StepGroups:
        """The groups of the next training step, as soon as they are complete."""
        return await self._until(self.dispatcher.take)

    async def evaluation(self) -> list[Rollout]:
        """The rollouts of the evaluation that was opened."""
        return await self._until(self.dispatcher.evaluated)

    async def wait_until_updatable(self) -> None:
        """Return when the weights may change."""
        await self._until(lambda: self.dispatcher.may_update() or None)

    def dispatch(self) -> None:
        """Execute the dispatcher's actions; call it after every change of the dispatcher."""
        for action in self.dispatcher.actions():
            self._execute(action)
        self._metrics.groups(self.dispatcher.load())

    def limit_groups(self, limit: int | None) -> None:
        """Let at most `limit` training groups run at once."""
        self.dispatcher.running_limit = limit
        self.dispatch()

    async def counts(self) -> dict[str, int]:
        """Numbers of pending and ready sandboxes, patches being graded, and API writes, over all workers."""
        total = {"pending": 0, "ready": 0, "grading": 0, "api_writes": 0}
        for counts in await asyncio.gather(*(worker.counts() for worker in self._workers), return_exceptions=True):
            if isinstance(counts, dict):
                total = {name: value + counts.get(name, 0) for name, value in total.items()}
        self._metrics.counts(total)
        return total

    async def sandboxes_by_node(self) -> NodeCounts:
        """Sandboxes of the job, as the first worker that watches them sees them; empty before that."""
        for worker in self._workers:
            with suppress(Exception):  # a lost worker; the call replaces it, which may wait for room
                async with asyncio.timeout(WORKER_SECONDS):
                    found = await worker.sandboxes_by_node()
                if found:
                    return found
        return {}

    async def unused_prefetch(self) -> UnusedPrefetch:
        """Prefetched sandboxes that no episode used, over all workers since they started."""
        results = await asyncio.gather(*(worker.unused_prefetch() for worker in self._workers), return_exceptions=True)
        return sum(
            (unused_prefetch for unused_prefetch in results if isinstance(unused_prefetch, UnusedPrefetch)),
            UnusedPrefetch(),
        )

    async def grade_reference_fix(self, task: int) -> Verdict | None:
        """The verdict on the reference fix of a training task; None where it has none."""
        return await self._workers[task % len(self._workers)].grade_reference_fix(task)

    async def close(self) -> None:
        """Cancel everything that runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _execute(self, action: DispatchAction) -> None:
        worker = self._worker(action.request)
        if isinstance(action, DeclareGroup):
            self._spawn(worker.declare, action.request, tuple(range(action.request.size)), 0)
        elif isinstance(action, DiscardGroup):
            self._spawn(worker.discard, action.request)
        else:
            self._spawn(worker.declare, action.request, action.members, action.retry)
            for index in action.members:
                self._spawn(self._member, worker, action, index)

    async def _member(self, worker: RolloutWorker, start: StartMembers, index: int) -> None:
        with log_ids(step=start.request.step, episode=f"{start.request.id}/{index}"):
            await self._roll_out(worker, start, index)

    async def _roll_out(self, worker: RolloutWorker, start: StartMembers, index: int) -> None:
        request = start.request
        await self._serving()
        try:
            await worker.run_episode(request, start.members, index, start.retry)
            self.dispatcher.episode_ended(request.id, index)
            self.dispatch()
            rollout = await worker.rollout(request, index, start.retry)
        except Exception as error:
            logger.warning("rollout %s/%d: its worker is lost: %s", request.id, index, error)
            rollout = Rollout(request.id, index, "", valid=False, error=str(error), error_code=WORKER_LOST)
        self._metrics.episode(request.purpose, rollout)
        self.dispatcher.graded(rollout)
        self.dispatch()
        self._notify()

    def _worker(self, request: GroupRequest) -> RolloutWorker:
        """A group stays with its worker; new groups go to the workers in turn."""
        if request.id not in self._worker_of_group:
            self._worker_of_group = {
                key: worker for key, worker in self._worker_of_group.items() if key in self.dispatcher.groups
            }
            self._worker_of_group[request.id] = self._workers[self._next % len(self._workers)]
            self._next += 1
        return self._worker_of_group[request.id]

    async def _until(self, probe: Callable[[], T | None]) -> T:
        while True:
            value = probe()
            if value is None and (failure := self.dispatcher.stuck()) is not None:
                raise _fatal_error(failure, self.dispatcher.only_lost_to)
            self.dispatch()
            if value is not None:
                self._notify()
                return value
            changed = self._changed
            await changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _spawn(self, call: Callable[[*Arguments], Awaitable[None]], *arguments: *Arguments) -> None:
        task = asyncio.create_task(_logged(call, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _fatal_error(failure: Rollout, only_lost_to: Callable[[str], bool]) -> Exception:
    """The error that ends the attempt, with `failure` as its example.

    A prompt that does not render, or images that are missing or without a repository alone, would end the next attempt
    too. `only_lost_to`: whether an error code ended every episode.
    """
    example = f"for example {failure.group} of task {failure.instance_id}"
    if failure.error_code == PROMPT_FAILED:
        return PromptError(f"a prompt template failed in every recent group, {example}: {failure.error}")
    if only_lost_to(ImagePullFailed.code):
        return TaskImagesMissing(f"no task's image can be pulled; {IMAGE_REMEDY}; {example}: {failure.error}")
    if only_lost_to(NoRepository.code):
        return TaskError(f"no patch can be taken in any task's image, {example}: {failure.error}")
    return RolloutsFailed(f"infrastructure ended every recent group, {example}: {failure.error_code}: {failure.error}")


async def _logged(call: Callable[[*Arguments], Awaitable[None]], *arguments: *Arguments) -> None:
    """The call is made here: one that was made before would stay open where the task is cancelled before it begins."""
    try:
        await call(*arguments)
    except Exception:
        logger.exception("an action on a group failed")
