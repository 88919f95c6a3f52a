"""Runs the attempts of an evaluation.

Guarantees: every attempt that is not settled runs, and no settled one runs again, however often the process is killed
in between; what is known is on disk before the next attempt of that worker starts; a lost sandbox or engine ends one
attempt, which counts as nothing; all sandboxes go with the process, by a Lease.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swerl_api import Sandbox
from swerl_api.names import JOB_LABEL, TASK_LABEL, label_value

from swerl_agent.episode import AgentLimits, Engine, Episode, Prompts, Tokenizer, run_episode, write_artifacts
from swerl_agent.grading import Grader, Verdict
from swerl_agent.kube import KubeClient, KubeError
from swerl_agent.sandbox import SandboxError, SandboxGroup
from swerl_agent.sandbox.lease import LeaseKeeper
from swerl_agent.sandbox.spec import group_spec, queue_labels
from swerl_agent.tasks import Task

from .records import Record, Records, Trial

LEASE_SECONDS = 60
LOST_IN_A_ROW = 20  # attempts that infrastructure ended, after which going on is vain


class EvaluationStuck(Exception):
    """Nothing is settled any more; the message shows one failure. Started again, the evaluation goes on."""


@dataclass(frozen=True)
class EvaluationSettings:
    """How the attempts are made."""

    samples: int = 1  # attempts per task
    workers: int = 4  # attempts at the same time
    temperature: float = 0.0
    job: str = "swerl-eval"  # name in the job label of what is created
    sandbox: Sandbox = field(default_factory=Sandbox)


@dataclass
class Model:
    """What acts: an engine, its tokenizer, the prompts, the limits."""

    engine: Engine
    tokenizer: Tokenizer
    prompts: Prompts
    limits: AgentLimits


class Evaluation:
    """Attempts at `tasks`, recorded in `folder`."""

    def __init__(
        self,
        tasks: Sequence[Task],
        model: Model,
        settings: EvaluationSettings,
        records: Records,
        folder: Path,
        *,
        on_record: Callable[[Record], None] = lambda record: None,
    ) -> None:
        self._tasks = {task.instance_id: task for task in tasks}
        self._model, self._settings = model, settings
        self._records, self._folder = records, folder
        self._on_record = on_record
        self._lost = 0  # attempts in a row that infrastructure ended

    @property
    def left(self) -> list[Trial]:
        """Attempts to make: first every task's first sample, then every task's second."""
        trials = [(name, sample) for sample in range(self._settings.samples) for name in self._tasks]
        return [trial for trial in trials if not self._records.settled(trial)]

    async def run(self, client: KubeClient, namespace: str, grader: Grader, *, kubeconfig: str | None = None) -> None:
        """Make them all; what is recorded stays whatever is raised. `kubeconfig` is that of `client`.

        Raises EvaluationStuck, LeaseLost, GradingError, OSError.
        """
        queue = iter(self.left)
        lease = LeaseKeeper(
            namespace,
            f"{self._settings.job}-{os.urandom(4).hex()}",
            holder=f"{getpass.getuser()}@{socket.gethostname()}/{os.getpid()}",
            labels={JOB_LABEL: self._settings.job},
            kubeconfig=kubeconfig,
            duration=LEASE_SECONDS,
        )
        lease.start()
        try:
            await asyncio.to_thread(lease.wait_held)
            place = _Place(client, namespace, grader, lease.name)
            workers = min(self._settings.workers, len(self.left))
            await _all([self._work(queue, place) for _ in range(workers)])
        finally:
            await asyncio.to_thread(lease.stop)

    async def _work(self, queue: Iterator[Trial], place: _Place) -> None:
        for trial in queue:
            record = await self._attempt(trial, place)
            await asyncio.to_thread(self._records.add, record)
            self._on_record(record)
            self._lost = 0 if record.valid else self._lost + 1
            if self._lost >= LOST_IN_A_ROW:
                raise EvaluationStuck(
                    f"infrastructure ended the last {self._lost} attempts, the last so: {record.error}"
                )

    async def _attempt(self, trial: Trial, place: _Place) -> Record:
        started = time.monotonic()
        task = self._tasks[trial[0]]
        try:
            episode = await self._episode(task, trial, place)
        except (SandboxError, KubeError) as error:
            return _lost(trial, f"{type(error).__name__}: {error}", time.monotonic() - started)
        verdict = await place.grader.grade(task, episode.patch) if episode.patch else None
        elapsed = time.monotonic() - started
        meta = {"sample": trial[1], "temperature": self._settings.temperature, "elapsed": round(elapsed, 1)}
        folder = await asyncio.to_thread(write_artifacts, self._folder, episode, verdict, meta=meta)
        return _record(trial, episode, verdict, elapsed, folder.name)

    async def _episode(self, task: Task, trial: Trial, place: _Place) -> Episode:
        group = await self._declare(task, place)
        try:
            session = await group.claim(0)
            model = self._model
            return await run_episode(
                task, session, model.engine, model.tokenizer, model.prompts, model.limits,
                group=f"{task.instance_id}-{trial[1]}", index=trial[1], temperature=self._settings.temperature,
            )  # fmt: skip
        finally:
            await group.delete()

    async def _declare(self, task: Task, place: _Place) -> SandboxGroup:
        spec = group_spec(
            self._settings.sandbox, image=task.image, task_id=task.instance_id, replicas=1, owner=place.lease
        )
        labels = {JOB_LABEL: self._settings.job, TASK_LABEL: label_value(task.instance_id)}
        labels |= queue_labels(self._settings.sandbox)
        name = f"eval-{os.urandom(6).hex()}"
        return await SandboxGroup.declare(place.client, name=name, spec=spec, labels=labels, namespace=place.namespace)


@dataclass(frozen=True)
class _Place:
    client: KubeClient
    namespace: str
    grader: Grader
    lease: str


async def _all(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run them together; the first failure ends the others and is raised as it is.

    Each is cancelled once at most, so that it can clean up.
    """
    tasks = [asyncio.create_task(work) for work in works]
    done: set[asyncio.Task[None]] = set()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _lost(trial: Trial, error: str, elapsed: float) -> Record:
    return Record(*trial, False, False, "lost", "", None, 0, error, round(elapsed, 1), "")


def _record(trial: Trial, episode: Episode, verdict: Verdict | None, elapsed: float, folder: str) -> Record:
    spoilt = episode.infrastructure_error or (verdict is not None and verdict.status == "infra_error")
    return Record(
        *trial,
        resolved=bool(verdict and verdict.resolved),
        valid=not spoilt,
        exit_status=episode.exit_status,
        verdict=verdict.status if verdict else "",
        patch_source=episode.patch_source,
        n_steps=len(episode.steps),
        error=episode.error or (verdict.detail if verdict and spoilt else None),
        elapsed=round(elapsed, 1),
        run_dir=folder,
    )
