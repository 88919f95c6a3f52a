"""The Grader: from a task and a patch to a verdict.

Guarantees: identical requests in flight share one Job; a verdict on the patch is never retried, an infrastructure
failure is, on a fresh Job; at most `settings.max_concurrent` Jobs of one Grader exist at once; before the first Job
there is a NetworkPolicy that cuts this Grader's Pods off the network, which `close` removes; with a Lease, no Job is
made that could outlive both.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from swerl_api import GradingSpec, SandboxSpec
from swerl_api.names import GRADING_PREFIX
from swerl_kube import KubeClient

from swerl_agent.sandbox.lease import LeaseKeeper
from swerl_agent.tasks import Task
from swerl_agent.tasks.swebench_library import library

from .cache import VerdictCache, cache_key, criteria, grader_version, limits
from .contrast import AlteredRun
from .contrast_runs import ContrastRuns
from .framing import Report
from .isolation_proof import IsolationProof
from .job import Infrastructure, JobRun, NoReport, Outcome, run_job
from .log_reader import LogReader, Unreadable
from .manifests import (
    GRADER_LABEL,
    PULL_ALLOWANCE,
    deny_all_policy,
    grading_job,
    grading_labels,
    payload_maps,
)
from .network_policy import GradingError, NetworkPolicy
from .payload import grading_payload
from .pods import PodWatch
from .policy import forbidden, runner_option_change, runner_query
from .record import log_end
from .swebench_report import check_parser
from .verdict import GradingIncomplete, Verdict
from .verdict_rules import verdict_of, witnessed_sessions

__all__ = ["Grader", "GradingError"]

DEADLINE_SLACK = 30  # seconds after Kubernetes' own deadline


T = TypeVar("T")


class Grader:
    """Grades patches in `namespace`; use with `async with`.

    `labels` and `owner_refs` go onto every object, so that nothing outlives the job; a `lease` that is held gives its
    labels, too, owns them all and takes them along when the program is killed. `cache_directory` keeps verdicts across
    processes. `keep_log` gets, in a thread, task, patch and what the eval script printed, or git where the patch did
    not apply.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        settings: GradingSpec,
        labels: Mapping[str, str] | None = None,
        owner_refs: Sequence[Mapping[str, Any]] = (),
        *,
        sandbox: SandboxSpec | None = None,
        cache_directory: Path | None = None,
        lease: LeaseKeeper | None = None,
        keep_log: Callable[[Task, str, bytes], None] | None = None,
    ) -> None:
        self._client, self._namespace, self._settings = client, namespace, settings
        self._labels, self._owners = dict(labels or {}), [dict(owner) for owner in owner_refs]
        self._lease = lease
        if lease:
            self._labels |= lease.labels
            self._owners.append(lease.reference)
        self._sandbox = sandbox or SandboxSpec()
        self._keep_log = keep_log
        self._id = os.urandom(6).hex()
        policy = deny_all_policy(f"{GRADING_PREFIX}{self._id}", self._labels, self._id, self._owners)
        self._network = NetworkPolicy(client, namespace, policy)
        self._watch = PodWatch(client, namespace, f"{GRADER_LABEL}={self._id}")
        self._slots = asyncio.Semaphore(settings.max_concurrent)
        self._cache = VerdictCache(cache_directory) if settings.cache else None
        self._running: dict[str, asyncio.Task[Verdict]] = {}
        self._ready: asyncio.Task[None] | None = None
        self._isolation = IsolationProof(self._sandbox.egress)
        self._logs = LogReader()
        self._contrast = ContrastRuns(self._altered, self._logs, VerdictCache(cache_directory), grader_version())

    @property
    def pending(self) -> int:
        """Requests that wait for a Job or its report."""
        return len(self._running)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop what still runs and delete its Jobs."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        await self._contrast.close()
        await self._logs.close()
        await self._watch.close()
        if self._ready is not None:
            await asyncio.wait([self._ready])
            await self._network.remove()

    async def grade(self, task: Task, patch: str, *, fresh: bool = False, image: str = "") -> Verdict:
        """The verdict on `patch` (a git diff, '' for no change) for `task`.

        `fresh`: from a Job of its own, neither kept nor shared. `image`: what the task's image is now, as a node
        resolved it; a verdict of a Job that ran another one under that name is not taken from the cache.

        Raises GradingError when the cluster or the task's parser makes grading impossible, LeaseLost without its Lease.
        """
        began = time.monotonic()
        verdict = await self._verdict(task, patch, fresh=fresh, image=image)
        return replace(verdict, duration=time.monotonic() - began)

    async def _verdict(self, task: Task, patch: str, *, fresh: bool, image: str) -> Verdict:
        """By policy, from the cache, from a Job that runs already, or from one of its own."""
        blocked, files = await asyncio.to_thread(self._examined, task, patch)
        if blocked:
            return Verdict("policy_blocked", detail=blocked)
        parts = [
            grader_version(),
            task.image,
            task.base_commit,
            self._workdir(task),
            *criteria(task.ground_truth),
        ]
        parts += limits(self._settings)
        key = cache_key([*parts, *files.values(), *([os.urandom(16)] if fresh else [])])
        cache = None if fresh else self._cache
        running = self._running.get(key)
        if running is None and cache:
            cached = await asyncio.to_thread(cache.get, key, image)
            if cached:
                return cached
            running = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.create_task(self._grade(task, patch, files, key, cache))
            running.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(running)

    def _examined(self, task: Task, patch: str) -> tuple[str | None, dict[str, bytes]]:
        """Why a patch is not graded, or its payload; reading a patch of the greatest size takes seconds."""
        blocked = forbidden(patch) or runner_option_change(patch, task.ground_truth)
        if self._settings.contrast == "never":
            blocked = blocked or runner_query(patch, task.ground_truth, task.repo)
        return blocked, {} if blocked else self._payload(task, patch)

    def _finished(self, key: str, done: asyncio.Task[Verdict]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # every waiter may have gone away

    def _payload(self, task: Task, patch: str, altered: AlteredRun | None = None) -> dict[str, bytes]:
        return grading_payload(task, patch, self._settings, self._workdir(task), altered, self._isolation.probe)

    def _workdir(self, task: Task) -> str:
        return task.workdir_or(self._sandbox.workdir)

    async def _grade(
        self,
        task: Task,
        patch: str,
        files: Mapping[str, bytes],
        key: str,
        cache: VerdictCache | None,
    ) -> Verdict:
        await self._make_ready()
        try:
            await asyncio.to_thread(check_parser, task.ground_truth)
        except ValueError as error:
            raise GradingError(f"task {task.instance_id}: {error}") from error
        async with self._slots:
            try:
                verdict = await self._decided(task, patch, files)
            except GradingIncomplete as error:
                verdict = error.verdict
        if cache:
            await asyncio.to_thread(cache.put, key, verdict)
        return verdict

    async def _decided(self, task: Task, patch: str, files: Mapping[str, bytes]) -> Verdict:
        """The verdict of one run and, where it resolves the task, of contrast."""

        async def first(run: JobRun, failures: int) -> tuple[Verdict, JobRun]:
            if self._keep_log and isinstance(run.outcome, Report):
                await asyncio.to_thread(self._keep_log, task, patch, run.outcome.log)
            options = {"allow_unshielded": self._settings.allow_unshielded}
            try:
                verdict = await self._logs.call(verdict_of, task, run.outcome, failures, **options)
            except Unreadable as error:
                verdict = Verdict("unresolved", {"retries": failures, "limited": True}, detail=str(error))
            log = log_end(run.outcome.log) if isinstance(run.outcome, Report) else ""
            return replace(verdict, image=run.image, log=log), run

        verdict, run = await self._with_retries(task, files, {}, first)
        if not verdict.resolved or not isinstance(run.outcome, Report):
            return verdict
        if self._settings.contrast == "never":
            return await self._contrast.passed_over(task, patch, verdict)
        verdict = await self._contrast.confirmed(task, patch, verdict, run.outcome)
        aware = runner_query(patch, task.ground_truth, task.repo)
        if aware and verdict.report["contrast"] == "unavailable":
            return replace(verdict, status="policy_blocked", detail=aware, report=verdict.report | {"resolved": False})
        return verdict

    async def _altered(self, task: Task, patch: str, altered: AlteredRun | None) -> Outcome:
        """What a run with altered tests, or with the tests as they are, reported."""

        async def reported(run: JobRun, failures: int) -> Outcome:
            return run.outcome

        return await self._with_retries(
            task, self._payload(task, patch, altered), altered.overlay if altered else {}, reported
        )

    async def _with_retries(
        self,
        task: Task,
        files: Mapping[str, bytes],
        overlay: Mapping[str, str],
        use: Callable[[JobRun, int], Awaitable[T]],
    ) -> T:
        """What `use` makes of a Job; another Job where the infrastructure failed. Raises GradingIncomplete."""
        failures: list[Infrastructure] = []
        for _ in range(self._settings.retries + 1):
            try:
                return await use(await self._run(task, files, overlay), len(failures))
            except Infrastructure as error:
                failures.append(error)
        cut_short = all(isinstance(error, NoReport) for error in failures)
        detail = f"every run was cut short: {failures[-1]}" if cut_short else str(failures[-1])
        report = {"retries": self._settings.retries, "limited": True}
        raise GradingIncomplete(Verdict("unresolved" if cut_short else "infra_error", report, detail=detail))

    async def _run(self, task: Task, files: Mapping[str, bytes], overlay: Mapping[str, str]) -> JobRun:
        name, waits = GRADING_PREFIX + cache_key([*files.values(), os.urandom(16)])[:12], self._isolation.awaited
        labels = grading_labels(self._labels, self._id, task.instance_id)
        maps = payload_maps(name, files, labels, self._owners)
        job = grading_job(
            name,
            task.image,
            [
                task.base_commit,
                self._workdir(task),
                str(self._settings.timeout_seconds),
                str(witnessed_sessions(task)),
            ],
            [payload["metadata"]["name"] for payload in maps],
            settings=self._settings,
            sandbox=self._sandbox,
            labels=labels,
            owners=self._owners,
            overlay=overlay,
            await_probe=waits,
        )
        deadline = self._settings.timeout_seconds + PULL_ALLOWANCE + DEADLINE_SLACK
        if self._lease:
            await self._lease.wait_until_safe()
        run = await run_job(self._client, self._watch, self._namespace, job, maps, deadline=deadline)
        self._isolation.take(run.outcome, image=task.image, awaited=waits)
        return run

    async def _make_ready(self) -> None:
        """Ensure the network policy, and load swebench meanwhile; once per Grader."""
        if self._ready is None or (self._ready.done() and self._ready.exception()):
            self._ready = asyncio.create_task(self._prepare())
        await asyncio.shield(self._ready)

    async def _prepare(self) -> None:
        await asyncio.gather(self._network.close_off(), asyncio.to_thread(library), self._logs.prepare())
