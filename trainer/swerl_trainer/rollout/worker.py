"""Runs the episodes of groups and grades them.

Guarantees:
* Each `run_episode` is followed by one Rollout, whatever happened.
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
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from swerl_agent.audit import executed, findings
from swerl_agent.episode import (
    CommandRunner,
    Episode,
    EpisodeRequest,
    RetokenizationError,
    TokenizerError,
    run_graded_episode,
)
from swerl_agent.episode.artifacts import written_on_exit
from swerl_agent.grading import Verdict
from swerl_agent.judge import Scoring
from swerl_agent.sandbox import NodeCounts, SandboxError, delete_best_effort
from swerl_agent.storage import finish_in_thread
from swerl_agent.tasks import Task
from swerl_kube import KubeError
from swerl_kube.logs import log_ids
from swerl_trainer.rollout.artifacts import artifacts_folder, write_rollout
from swerl_trainer.rollout.dependencies import DeclaredGroup, WorkerDependencies
from swerl_trainer.rollout.group import GroupRequest, Rollout, TaskCounts, UnusedPrefetch
from swerl_trainer.rollout.reward import lost_rollout, needs_grading, rollout_of

logger = logging.getLogger(__name__)

DISCARDED = "discarded"
NOT_ENCODED = "not_encoded"
API_FAILED = "api_error"  # error code of an episode whose sandbox the API server refused, or did not answer for


@dataclass
class _StartSandboxes:
    """The sandboxes of one start of a group, and the members that use them."""

    members: tuple[int, ...]
    declared: asyncio.Task[DeclaredGroup]
    remaining: set[int] = field(default_factory=set)  # members whose sandboxes are not removed
    used: bool = False  # an episode requested one of them


@dataclass
class _Member:
    """One member of a group on its way to a verdict."""

    request: GroupRequest
    members: tuple[int, ...]  # of its start
    index: int
    retry: int
    requested: float = field(default_factory=time.monotonic)
    waited: float = 0.0  # seconds until it had its sandbox
    start_seconds: Mapping[str, float] = field(default_factory=dict)  # of its sandbox's start, by part
    scoring: Scoring | None = None
    unwritten: list[Episode] = field(default_factory=list)  # ended episodes whose artifacts are not written
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Worker:
    """Episodes of many groups at once, in one event loop."""

    def __init__(self, dependencies: WorkerDependencies) -> None:
        self._deps = dependencies
        self._sandboxes: dict[tuple[str, int], _StartSandboxes] = {}
        self._running: dict[str, dict[tuple[int, int], asyncio.Task[Rollout]]] = {}  # by group; index and retry
        self._grading = 0
        self._unused_prefetch = UnusedPrefetch()
        self._removals: set[asyncio.Task[None]] = set()

    async def prepare(self) -> TaskCounts:
        """See RolloutWorker."""
        return TaskCounts(*(len(self._deps.tasks.get(purpose, ())) for purpose in ("train", "evaluation")))

    async def declare(self, request: GroupRequest, members: tuple[int, ...], retry: int) -> None:
        """See RolloutWorker."""
        self._sandboxes_of(request, members, retry)

    async def run_episode(self, request: GroupRequest, members: tuple[int, ...], index: int, retry: int) -> None:
        """See RolloutWorker."""
        member = _Member(request, members, index, retry)
        with log_ids(step=request.step, episode=f"{request.id}/{index}"):
            work = asyncio.create_task(self._member(member))
        work.add_done_callback(lambda _: member.released.set())
        self._running.setdefault(request.id, {})[index, retry] = work
        await member.released.wait()

    async def rollout(self, request: GroupRequest, index: int, retry: int) -> Rollout:
        """See RolloutWorker."""
        works = self._running.get(request.id, {})
        try:
            if work := works.get((index, retry)):
                return await work
        except asyncio.CancelledError:
            pass
        finally:
            works.pop((index, retry), None)
            if not works:
                self._running.pop(request.id, None)
        return self._lost_rollout(request, index, "the group is no longer needed", DISCARDED)

    async def discard(self, request: GroupRequest) -> None:
        """See RolloutWorker."""
        for work in self._running.get(request.id, {}).values():
            work.cancel()
        for key in [key for key in self._sandboxes if key[0] == request.id]:
            await self._remove(self._sandboxes.pop(key))

    async def close(self) -> None:
        """See RolloutWorker."""
        works = [work for works in self._running.values() for work in works.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        remaining, self._sandboxes = list(self._sandboxes.values()), {}
        await asyncio.gather(*map(self._remove, remaining), *self._removals, return_exceptions=True)

    async def grade_reference_fix(self, task: int) -> Verdict | None:
        """See RolloutWorker."""
        chosen = self._deps.tasks["train"][task]
        fix = chosen.ground_truth.patch
        return await self._deps.grading.grade(chosen, fix, fresh=True) if fix else None

    async def unused_prefetch(self) -> UnusedPrefetch:
        """See RolloutWorker."""
        return self._unused_prefetch

    async def counts(self) -> dict[str, int]:
        """See RolloutWorker."""
        pending, ready = self._deps.sandboxes.counts()
        return {"pending": pending, "ready": ready, "grading": self._grading, "api_writes": self._deps.api_writes()}

    async def sandboxes_by_node(self) -> NodeCounts:
        """See RolloutWorker."""
        return self._deps.sandboxes.by_node()

    async def _member(self, member: _Member) -> Rollout:
        # For an episode that is stopped, or fails before its verdict.
        keep = partial(write_rollout, self._deps, member.request)
        async with written_on_exit(keep) as member.unwritten, self._scoring(member) as member.scoring:
            return await self._graded_rollout(member)

    async def _graded_rollout(self, member: _Member) -> Rollout:
        request, index, scoring = member.request, member.index, member.scoring
        sandboxes = self._usable_sandboxes(request, member.members, member.retry)
        try:
            graded = await run_graded_episode(
                self._episode_request(member),
                self._deps.agent,
                self._sandbox(member, sandboxes),
                self._grade,
                needs_grading=needs_grading,
            )
        except SandboxError as error:
            return self._lost_rollout(request, index, error, error.code)
        except KubeError as error:
            return self._lost_rollout(request, index, error, API_FAILED)
        except Exception as error:
            logger.exception("episode %s/%d failed", request.id, index)
            return self._lost_rollout(request, index, error, "internal")
        episode, verdict = graded.episode, graded.verdict
        scores = await scoring.finish() if scoring and not episode.infrastructure_error else {}
        audit = await asyncio.to_thread(lambda: findings(executed(episode.commands)))
        algorithm = self._deps.algorithm
        waited, waits = {"wait": member.waited}, member.start_seconds
        rollout = rollout_of(episode, verdict, waited, algorithm, scores=scores, waits=waits, audit=audit)
        member.unwritten.clear()
        await finish_in_thread(write_rollout, self._deps, request, episode, verdict, rollout, scores, audit)
        return await self._encoded(rollout, episode) if rollout.valid else rollout

    def _scoring(self, member: _Member) -> AbstractAsyncContextManager[Scoring | None]:
        judge, request = self._deps.judge, member.request
        if judge is None or request.purpose != "train":
            return contextlib.nullcontext()
        return judge.scoring(self._task(request).problem_statement, f"{request.id}/{member.index}")

    def _episode_request(self, member: _Member) -> EpisodeRequest:
        request, task = member.request, self._task(member.request)
        return EpisodeRequest(
            task,
            request.id,
            member.index,
            request.temperature,
            workdir=task.workdir_or(self._deps.workdir),
            scoring=member.scoring,
            live=artifacts_folder(self._deps, request),
            on_end=member.unwritten.append,
        )

    @asynccontextmanager
    async def _sandbox(self, member: _Member, sandboxes: _StartSandboxes) -> AsyncIterator[CommandRunner]:
        """The member's sandbox, claimed; removed on exit."""
        try:
            group = await asyncio.shield(sandboxes.declared)
            session = await group.claim(sandboxes.members.index(member.index))
            member.waited = time.monotonic() - member.requested
            yield session
            member.start_seconds = group.waits
        finally:
            await asyncio.shield(self._in_background(self._release(member.request, member.retry, member.index)))
            member.released.set()

    async def _encoded(self, rollout: Rollout, episode: Episode) -> Rollout:
        """The rollout with the segments to train on; one that cannot be encoded is invalid."""
        if self._deps.encode is None:
            return rollout
        try:
            return replace(rollout, segments=await asyncio.to_thread(self._deps.encode, episode))
        except (RetokenizationError, TokenizerError) as error:
            return replace(rollout, valid=False, segments=(), error=str(error), error_code=NOT_ENCODED)

    async def _grade(self, request: EpisodeRequest, episode: Episode) -> Verdict:
        self._grading += 1
        try:
            return await self._deps.grading.grade(request.task, episode.patch or "", image=episode.image)
        except Exception as error:
            logger.exception("grading of %s/%d failed", request.group, request.index)
            return Verdict("infra_error", {}, 0.0, False, f"{type(error).__name__}: {error}")
        finally:
            self._grading -= 1

    def _sandboxes_of(self, request: GroupRequest, members: tuple[int, ...], retry: int) -> _StartSandboxes:
        key = (request.id, retry)
        if key not in self._sandboxes:
            self._sandboxes[key] = self._declare(request, members, "" if retry == 0 else f"-r{retry}")
        return self._sandboxes[key]

    def _declare(self, request: GroupRequest, members: tuple[int, ...], suffix: str) -> _StartSandboxes:
        name = self._deps.sandbox_name(f"{request.id}{suffix}")
        declaring = self._deps.sandboxes.declare(name, self._task(request), len(members))
        return _StartSandboxes(members, asyncio.ensure_future(declaring), set(members))

    def _usable_sandboxes(self, request: GroupRequest, members: tuple[int, ...], retry: int) -> _StartSandboxes:
        """The sandboxes of a start; those whose lifetime could end before their episodes do are replaced."""
        sandboxes = self._sandboxes_of(request, members, retry)
        if not sandboxes.used and _age(sandboxes) > self._deps.max_age:
            logger.warning(
                "the prefetched sandboxes of %s are too old for their episodes; declaring new ones", request.id
            )
            self._in_background(self._remove(sandboxes))
            sandboxes = self._sandboxes[(request.id, retry)] = self._declare(request, members, f"-n{retry}")
        sandboxes.used = True
        return sandboxes

    def _in_background(self, removal: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(removal)
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)
        return task

    async def _release(self, request: GroupRequest, retry: int, index: int) -> None:
        """Remove a member's sandbox; remove the group with its last one."""
        sandboxes = self._sandboxes.get((request.id, retry))
        if sandboxes is None:
            return None
        sandboxes.remaining.discard(index)
        if not sandboxes.remaining:
            del self._sandboxes[(request.id, retry)]
            return await self._remove(sandboxes)
        if sandboxes.declared.done() and not sandboxes.declared.exception():
            await delete_best_effort(sandboxes.declared.result().release(sandboxes.members.index(index)))
        return None

    async def _remove(self, sandboxes: _StartSandboxes) -> None:
        try:
            group = await sandboxes.declared
        except Exception:  # every episode that waits for these sandboxes gets the error
            return
        await delete_best_effort(group.delete())
        if not sandboxes.used:
            self._unused_prefetch += UnusedPrefetch(1, group.idle_seconds)

    def _task(self, request: GroupRequest) -> Task:
        return self._deps.tasks[request.purpose][request.task]

    def _lost_rollout(self, request: GroupRequest, index: int, error: BaseException | str, code: str) -> Rollout:
        return lost_rollout(request.id, index, self._task(request).instance_id, error, code)


def _age(sandboxes: _StartSandboxes) -> float:
    declared = sandboxes.declared
    return declared.result().age if declared.done() and not declared.cancelled() and not declared.exception() else 0.0
