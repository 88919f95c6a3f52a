"""Carries out what the dispatcher decides, with the workers.

Guarantees: the dispatcher is told of every member it started, also when its worker is lost; no episode starts while no
engine serves; all decisions are taken in one event loop, one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from swerl_agent.episode import PROMPT_FAILED, PromptError
from swerl_agent.grading import Verdict
from swerl_agent.sandbox import ImagePullFailed
from swerl_trainer.rollout.dispatcher import Dispatcher, StepGroups
from swerl_trainer.rollout.errors import RolloutsFailed, TaskImagesMissing
from swerl_trainer.rollout.group import Action, Declare, Discard, GroupOrder, Rollout, Start, Waste
from swerl_trainer.rollout.operations import RolloutWorker

logger = logging.getLogger(__name__)
T = TypeVar("T")
WORKER_LOST = "worker_lost"
IMAGE_CURE = (
    "push the images, correct their names in the tasks or by spec.sandbox.registryRewrite, or give "
    "spec.sandbox.pullSecrets, then make the job anew"
)


class Runner:
    """The dispatcher's hands."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        workers: Sequence[RolloutWorker],
        *,
        serving: Callable[[], Awaitable[None]],
    ) -> None:
        self.dispatcher = dispatcher
        self._workers = list(workers)
        self._serving = serving
        self._placed: dict[str, RolloutWorker] = {}
        self._next = 0
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def step(self) -> StepGroups:
        """The groups of the next training step, as soon as they are complete."""
        return await self._until(self.dispatcher.take)

    async def evaluation(self) -> list[Rollout]:
        """The rollouts of the evaluation that was opened."""
        return await self._until(self.dispatcher.evaluated)

    async def settled(self) -> None:
        """Return when the weights may change."""
        await self._until(lambda: self.dispatcher.may_update() or None)

    def kick(self) -> None:
        """Carry out what the dispatcher decides now; call it after telling the dispatcher something."""
        for action in self.dispatcher.actions():
            self._carry_out(action)

    async def counts(self) -> dict[str, int]:
        """Sandboxes pending and ready, and patches being graded, of all workers."""
        total = {"pending": 0, "ready": 0, "grading": 0}
        for counts in await asyncio.gather(*(worker.counts() for worker in self._workers), return_exceptions=True):
            if isinstance(counts, dict):
                total = {name: value + counts.get(name, 0) for name, value in total.items()}
        return total

    async def waste(self) -> Waste:
        """Sandboxes made ahead in vain, by all workers since they began."""
        found = await asyncio.gather(*(worker.waste() for worker in self._workers), return_exceptions=True)
        return sum((waste for waste in found if isinstance(waste, Waste)), Waste())

    async def grade_fix(self, task: int) -> Verdict | None:
        """The verdict on the reference fix of a training task; None where it has none."""
        return await self._workers[task % len(self._workers)].grade_fix(task)

    async def close(self) -> None:
        """Stop waiting for whatever runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _carry_out(self, action: Action) -> None:
        worker = self._worker(action.order)
        if isinstance(action, Declare):
            self._spawn(worker.declare(action.order, tuple(range(action.order.size)), 0))
        elif isinstance(action, Discard):
            self._spawn(worker.discard(action.order))
        else:
            self._spawn(worker.declare(action.order, action.members, action.attempt))
            for index in action.members:
                self._spawn(self._member(worker, action, index))

    async def _member(self, worker: RolloutWorker, start: Start, index: int) -> None:
        order = start.order
        await self._serving()
        try:
            await worker.act(order, start.members, index, start.attempt)
            self.dispatcher.acted(order.id, index)
            self.kick()
            rollout = await worker.rollout(order, index, start.attempt)
        except Exception as error:
            logger.warning("rollout %s/%d: its worker is lost: %s", order.id, index, error)
            rollout = Rollout(order.id, index, "", valid=False, error=str(error), error_code=WORKER_LOST)
        self.dispatcher.finished(rollout)
        self.kick()
        self._announce()

    def _worker(self, order: GroupOrder) -> RolloutWorker:
        """A group stays with its worker; new ones go round."""
        if order.id not in self._placed:
            self._placed = {key: worker for key, worker in self._placed.items() if key in self.dispatcher.groups}
            self._placed[order.id] = self._workers[self._next % len(self._workers)]
            self._next += 1
        return self._placed[order.id]

    async def _until(self, probe: Callable[[], T | None]) -> T:
        while True:
            value = probe()
            if value is None and (failure := self.dispatcher.stuck()) is not None:
                raise _vain(failure, imageless=self.dispatcher.lost_to_nothing_but(ImagePullFailed.code))
            self.kick()
            if value is not None:
                self._announce()
                return value
            changed = self._changed
            await changed.wait()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _vain(failure: Rollout, *, imageless: bool) -> Exception:
    """Why going on is vain, as `failure` shows; another attempt would be, too, with prompts that do not render and,
    `imageless`, where nothing but images that cannot be pulled ended what was begun."""
    example = f"for example {failure.group} of task {failure.instance_id}"
    if failure.error_code == PROMPT_FAILED:
        return PromptError(f"a template ended every group lately, {example}: {failure.error}")
    if imageless:
        return TaskImagesMissing(f"no task's image can be pulled; {IMAGE_CURE}; {example}: {failure.error}")
    return RolloutsFailed(f"infrastructure ended every group lately, {example}: {failure.error_code}: {failure.error}")


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        logger.exception("an action on a group failed")
