"""Runs the attempts of an evaluation.

Guarantees: every attempt that is not settled runs, and no settled one runs again, however often the process is killed
in between; what is known is on disk before the next attempt of that worker starts, and so is what an episode did,
whatever ended it; a lost sandbox or engine ends one attempt, which counts as nothing, and so does a prompt that does
not render; no attempt begins without the Lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swerl_kube import KubeError

from swerl_agent.episode import (
    PROMPT_FAILED,
    Agent,
    Episode,
    EpisodeRequest,
    GradedEpisode,
    PromptError,
    unwritten,
)
from swerl_agent.sandbox import SandboxError
from swerl_agent.storage import finish_in_thread
from swerl_agent.tasks import Task

from .artifacts import write_attempt, write_interrupted
from .records import Record, Records, Trial
from .samples import SampleRunner

LOST_IN_A_ROW = 20  # attempts that say nothing about the model, after which going on is vain


class EvaluationStuck(Exception):
    """Nothing is settled any more; the message shows one failure. Started again, the evaluation goes on."""


@dataclass(frozen=True)
class EvaluationSettings:
    """How the attempts are made."""

    samples: int = 1  # attempts per task
    workers: int = 4  # attempts at the same time
    temperature: float = 0.0
    told: Mapping[str, Any] = field(default_factory=dict)  # what artifacts say of all attempts, see `made_with`


class Evaluation:
    """Attempts at `tasks`, recorded in `folder`."""

    def __init__(
        self,
        tasks: Sequence[Task],
        agent: Agent,
        settings: EvaluationSettings,
        records: Records,
        folder: Path,
        *,
        on_record: Callable[[Record], None] = lambda record: None,
        conclude: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_record` gets each record that is made; `conclude` is called after it, in a thread."""
        self._tasks = {task.instance_id: task for task in tasks}
        self._agent, self._settings = agent, settings
        self._records, self._folder = records, folder
        self._on_record, self._conclude = on_record, conclude
        self._lost = 0  # attempts in a row that say nothing about the model

    @property
    def left(self) -> list[Trial]:
        """Attempts to make: first every task's first sample, then every task's second."""
        trials = [(name, sample) for sample in range(self._settings.samples) for name in self._tasks]
        return [trial for trial in trials if not self._records.settled(trial)]

    @property
    def retryable(self) -> list[Trial]:
        """Of these, what another try in the same manner may settle: all but those whose prompts do not render."""
        known = {trial: self._records.of(trial) for trial in self.left}
        return [trial for trial, record in known.items() if record is None or record.exit_status != PROMPT_FAILED]

    async def run(self, runner: SampleRunner) -> None:
        """Make them all; what is recorded stays whatever is raised.

        Raises EvaluationStuck, PromptError when no prompt renders any more, LeaseLost, GradingError, OSError.
        """
        left = self.left
        queue = iter(left)
        if left:
            await _all([self._work(queue, runner) for _ in range(min(self._settings.workers, len(left)))])

    async def _work(self, queue: Iterator[Trial], runner: SampleRunner) -> None:
        for trial in queue:
            record = await self._attempt(trial, runner)
            self._on_record(record)
            await asyncio.to_thread(self._conclude)
            if runner.lost.done():
                runner.lost.result()
            self._lost = 0 if record.valid else self._lost + 1
            if self._lost >= LOST_IN_A_ROW:
                raise _vain(record, f"the last {self._lost} attempts")

    async def _attempt(self, trial: Trial, runner: SampleRunner) -> Record:
        """One attempt; its record, which is on disk."""
        started = time.monotonic()
        name, sample = trial
        async with unwritten(lambda episode: self._leave(trial, episode, time.monotonic() - started)) as ended:
            try:
                request = EpisodeRequest(
                    self._tasks[name],
                    group=f"{name}-{sample}",
                    index=sample,
                    temperature=self._settings.temperature,
                    workdir=runner.sandbox.workdir,
                    on_end=ended.append,
                )
                graded = await runner.run(request, self._agent)
            except (SandboxError, KubeError) as error:
                record = _lost(trial, f"{type(error).__name__}: {error}", time.monotonic() - started)
                await finish_in_thread(self._records.add, record)
                return record
            ended.clear()
            return await finish_in_thread(self._keep, trial, graded, time.monotonic() - started)

    def _keep(self, trial: Trial, graded: GradedEpisode, elapsed: float) -> Record:
        folder = write_attempt(self._folder, graded, self._meta(trial, elapsed))
        record = _record(trial, graded, elapsed, folder.name)
        self._records.add(record)
        return record

    def _leave(self, trial: Trial, episode: Episode, elapsed: float) -> None:
        write_interrupted(self._folder, episode, self._meta(trial, elapsed))

    def _meta(self, trial: Trial, elapsed: float) -> dict[str, Any]:
        settings = self._settings
        return {
            **settings.told,
            "sample": trial[1],
            "temperature": settings.temperature,
            "elapsed": round(elapsed, 1),
        }


def check_prompts(records: Records) -> None:
    """Raises PromptError when all that is known is that the prompts do not render."""
    known = records.all
    if known and all(record.exit_status == PROMPT_FAILED for record in known):
        raise _vain(known[-1], f"all {len(known)} attempts")


def _vain(record: Record, which: str) -> EvaluationStuck | PromptError:
    """Why going on is vain, as `record` shows, the last of `which`."""
    if record.exit_status == PROMPT_FAILED:
        return PromptError(f"a template ended {which}, the last at {record.instance_id}: {record.error}")
    return EvaluationStuck(f"infrastructure ended {which}, the last so: {record.error}")


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


def _record(trial: Trial, graded: GradedEpisode, elapsed: float, folder: str) -> Record:
    episode, verdict = graded.episode, graded.verdict
    return Record(
        *trial,
        resolved=graded.resolved,
        valid=graded.loss_error is None,
        exit_status=episode.exit_status,
        verdict=verdict.status if verdict else "",
        patch_source=episode.patch_source,
        n_steps=len(episode.steps),
        error=episode.error or graded.loss_error,
        elapsed=round(elapsed, 1),
        run_dir=folder,
    )
