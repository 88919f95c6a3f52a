"""Runs the episodes of groups and grades them.

Guarantees:
* Each `act` is followed by one Rollout, whatever happened.
* No episode begins in a prefetched sandbox whose lifetime could end first.
* A sandbox is removed when its episode ends, before the patch is graded. A removal that has begun completes even if its
  caller is cancelled.
* Every episode leaves its artifacts. Nothing of a discarded group keeps running.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from swerl_agent.audit import Finding, executed, findings
from swerl_agent.episode import Episode, EpisodeRequest, RetokenizationError, TokenizerError
from swerl_agent.episode.artifacts import write_artifacts, written_on_exit
from swerl_agent.grading import Verdict
from swerl_agent.judge import Scoring, StepScore
from swerl_agent.sandbox import SandboxError, delete_best_effort
from swerl_agent.storage import finish_in_thread
from swerl_agent.tasks import Task
from swerl_kube import KubeError
from swerl_trainer.rollout.group import GroupOrder, Rollout, TaskCounts, Waste
from swerl_trainer.rollout.parts import SandboxGroup, WorkerParts
from swerl_trainer.rollout.reward import lost_rollout, needs_grading, rollout_of

logger = logging.getLogger(__name__)

DISCARDED = "discarded"
NOT_ENCODED = "not_encoded"
API_FAILED = "api_error"  # error code of an episode that the API server refused a sandbox, or gave no answer


@dataclass
class _Try:
    """The sandboxes of one try of a group and the members that use them."""

    members: tuple[int, ...]
    declared: asyncio.Task[SandboxGroup]
    left: set[int] = field(default_factory=set)
    used: bool = False  # an episode asked for one of them


@dataclass
class _Member:
    """One member of a group on its way to a verdict."""

    order: GroupOrder
    members: tuple[int, ...]  # of its try
    index: int
    attempt: int
    asked: float = field(default_factory=time.monotonic)
    scoring: Scoring | None = None
    unwritten: list[Episode] = field(default_factory=list)  # that ended, and whose artifacts nobody wrote
    acted: asyncio.Event = field(default_factory=asyncio.Event)  # it needs its sandbox no more


class Worker:
    """Episodes of many groups at once, in one event loop."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._tries: dict[tuple[str, int], _Try] = {}
        self._running: dict[str, dict[tuple[int, int], asyncio.Task[Rollout]]] = {}  # by group; index and attempt
        self._grading = 0
        self._waste = Waste()
        self._removals: set[asyncio.Task[None]] = set()

    async def prepare(self) -> TaskCounts:
        """See RolloutWorker."""
        return TaskCounts(*(len(self._parts.tasks.get(purpose, ())) for purpose in ("train", "evaluation")))

    async def declare(self, order: GroupOrder, members: tuple[int, ...], attempt: int) -> None:
        """See RolloutWorker."""
        self._try(order, members, attempt)

    async def act(self, order: GroupOrder, members: tuple[int, ...], index: int, attempt: int) -> None:
        """See RolloutWorker."""
        member = _Member(order, members, index, attempt)
        work = asyncio.create_task(self._member(member))
        work.add_done_callback(lambda _: member.acted.set())
        self._running.setdefault(order.id, {})[index, attempt] = work
        await member.acted.wait()

    async def rollout(self, order: GroupOrder, index: int, attempt: int) -> Rollout:
        """See RolloutWorker."""
        works = self._running.get(order.id, {})
        try:
            if work := works.get((index, attempt)):
                return await work
        except asyncio.CancelledError:
            pass
        finally:
            works.pop((index, attempt), None)
            if not works:
                self._running.pop(order.id, None)
        return self._lost(order, index, "the group is no longer needed", DISCARDED)

    async def discard(self, order: GroupOrder) -> None:
        """See RolloutWorker."""
        for work in self._running.get(order.id, {}).values():
            work.cancel()
        for key in [key for key in self._tries if key[0] == order.id]:
            await self._remove(self._tries.pop(key))

    async def close(self) -> None:
        """See RolloutWorker."""
        works = [work for works in self._running.values() for work in works.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        tries, self._tries = list(self._tries.values()), {}
        await asyncio.gather(*(self._remove(one) for one in tries), *self._removals, return_exceptions=True)

    async def grade_fix(self, task: int) -> Verdict | None:
        """See RolloutWorker."""
        chosen = self._parts.tasks["train"][task]
        fix = chosen.evaluation.patch
        return await self._parts.grading.grade(chosen, fix, fresh=True) if fix else None

    async def waste(self) -> Waste:
        """See RolloutWorker."""
        return self._waste

    async def counts(self) -> dict[str, int]:
        """See RolloutWorker."""
        pending, ready = self._parts.sandboxes.counts()
        return {"pending": pending, "ready": ready, "grading": self._grading}

    async def _member(self, member: _Member) -> Rollout:
        keep = partial(self._write, member.order)  # it was stopped or failed, or nobody waits for its verdict any more
        async with written_on_exit(keep) as member.unwritten, self._scoring(member) as member.scoring:
            return await self._judged(member)

    async def _judged(self, member: _Member) -> Rollout:
        order, index, scoring = member.order, member.index, member.scoring
        attempted = self._fresh(order, member.members, member.attempt)
        try:
            try:
                episode, waited, waits = await self._episode(member, attempted)
            finally:
                await asyncio.shield(self._in_background(self._release(order, member.attempt, index)))
                member.acted.set()
        except SandboxError as error:
            return self._lost(order, index, error, error.code)
        except KubeError as error:
            return self._lost(order, index, error, API_FAILED)
        except Exception as error:
            logger.exception("episode %s/%d failed", order.id, index)
            return self._lost(order, index, error, "internal")
        verdict = await self._grade(order, episode) if needs_grading(episode) else None
        scores = await scoring.finish() if scoring and not episode.infrastructure_error else {}
        audit = await asyncio.to_thread(lambda: findings(executed(episode.steps)))
        rollout = rollout_of(
            episode,
            verdict,
            waited,
            self._parts.algorithm,
            scores=scores,
            waits=waits,
            audit=audit,
        )
        member.unwritten.clear()
        await finish_in_thread(self._write, order, episode, verdict, rollout, scores, audit)
        return await self._encoded(rollout, episode) if rollout.valid else rollout

    def _scoring(self, member: _Member) -> AbstractAsyncContextManager[Scoring | None]:
        judge, order = self._parts.judge, member.order
        if judge is None or order.purpose != "train":
            return contextlib.nullcontext()
        return judge.scoring(self._task(order).problem_statement, f"{order.id}/{member.index}")

    async def _episode(
        self, member: _Member, attempted: _Try
    ) -> tuple[Episode, Mapping[str, float], Mapping[str, float]]:
        """The episode, the seconds it waited before it began, and the parts of its sandbox's start."""
        order = member.order
        group = await asyncio.shield(attempted.declared)
        session = await group.claim(attempted.members.index(member.index))
        waited = time.monotonic() - member.asked
        request = EpisodeRequest(
            self._task(order), order.id, member.index, order.temperature, workdir=self._parts.workdir,
            scoring=member.scoring, on_end=member.unwritten.append,
        )  # fmt: skip
        episode = await self._parts.agent.run_episode(request, session)
        return episode, {"wait": waited}, group.waits

    async def _encoded(self, rollout: Rollout, episode: Episode) -> Rollout:
        """The rollout with what of it is trained; one that cannot be encoded counts for nothing."""
        if self._parts.encode is None:
            return rollout
        try:
            return replace(rollout, segments=await asyncio.to_thread(self._parts.encode, episode))
        except (RetokenizationError, TokenizerError) as error:
            return replace(rollout, valid=False, segments=(), error=str(error), error_code=NOT_ENCODED)

    async def _grade(self, order: GroupOrder, episode: Episode) -> Verdict:
        self._grading += 1
        try:
            return await self._parts.grading.grade(self._task(order), episode.patch or "", image=episode.image)
        except Exception as error:
            logger.exception("grading of %s/%d failed", order.id, episode.index)
            return Verdict("infra_error", {}, 0.0, False, f"{type(error).__name__}: {error}")
        finally:
            self._grading -= 1

    def _try(self, order: GroupOrder, members: tuple[int, ...], attempt: int) -> _Try:
        key = (order.id, attempt)
        if key not in self._tries:
            self._tries[key] = self._ask(order, members, "" if attempt == 0 else f"-r{attempt}")
        return self._tries[key]

    def _ask(self, order: GroupOrder, members: tuple[int, ...], suffix: str) -> _Try:
        name = self._parts.sandbox_name(f"{order.id}{suffix}")
        declaring = self._parts.sandboxes.declare(name, self._task(order), len(members))
        return _Try(members, asyncio.ensure_future(declaring), set(members))

    def _fresh(self, order: GroupOrder, members: tuple[int, ...], attempt: int) -> _Try:
        """The try's sandboxes for an episode; those that waited too long to outlive it are replaced."""
        attempted = self._try(order, members, attempt)
        if not attempted.used and _age(attempted) > self._parts.max_age:
            logger.warning("the sandboxes of %s waited too long for their episodes; others are made", order.id)
            self._in_background(self._remove(attempted))
            attempted = self._tries[(order.id, attempt)] = self._ask(order, members, f"-n{attempt}")
        attempted.used = True
        return attempted

    def _in_background(self, removal: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(removal)
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)
        return task

    async def _release(self, order: GroupOrder, attempt: int, index: int) -> None:
        """Remove a member's sandbox, with the last one the group itself."""
        attempted = self._tries.get((order.id, attempt))
        if attempted is None:
            return None
        attempted.left.discard(index)
        if not attempted.left:
            del self._tries[(order.id, attempt)]
            return await self._remove(attempted)
        if attempted.declared.done() and not attempted.declared.exception():
            await delete_best_effort(attempted.declared.result().release(attempted.members.index(index)))
        return None

    async def _remove(self, attempted: _Try) -> None:
        try:
            group = await attempted.declared
        except Exception:  # who waits for its sandboxes has been told
            return
        await delete_best_effort(group.delete())
        if not attempted.used:
            self._waste += Waste(1, group.idle_seconds)

    def _write(
        self,
        order: GroupOrder,
        episode: Episode,
        verdict: Verdict | None = None,
        rollout: Rollout | None = None,
        scores: Mapping[int, StepScore] | None = None,
        audit: Collection[Finding] | None = None,
    ) -> None:
        folder = f"step-{order.step:04d}" if order.purpose == "train" else f"evaluation-{order.step:04d}"
        meta = {
            "step": order.step,
            "reward": rollout.reward if rollout else 0.0,
            "valid": rollout is not None and rollout.valid,
            "temperature": order.temperature,
            "sampling_params": {"temperature": order.temperature, **self._parts.sampling},
            "step_scores": [asdict(score) for score in (scores or {}).values()],
        }
        try:
            write_artifacts(self._parts.artifacts / folder, episode, verdict, meta=meta, audit=audit)
        except OSError as error:
            logger.error("the artifacts of %s/%d are not kept: %s", order.id, episode.index, error)

    def _task(self, order: GroupOrder) -> Task:
        return self._parts.tasks[order.purpose][order.task]

    def _lost(self, order: GroupOrder, index: int, error: BaseException | str, code: str) -> Rollout:
        return lost_rollout(order.id, index, self._task(order).instance_id, error, code)


def _age(attempted: _Try) -> float:
    declared = attempted.declared
    return declared.result().age if declared.done() and not declared.cancelled() and not declared.exception() else 0.0
