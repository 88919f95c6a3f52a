"""Runs the samples of an evaluation.

Guarantees: every unsettled sample runs and no settled one runs again, however often the process is killed. Records and
episodes are on disk before a worker starts its next sample. A lost sandbox or engine, or a prompt that does not render,
ends one sample, which then counts as an error. No sample starts without the Lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swerl_api import SampleSpec
from swerl_kube import KubeError

from swerl_agent.episode import (
    PROMPT_FAILED,
    Agent,
    Episode,
    EpisodeRequest,
    GradedEpisode,
    NoRepository,
    PromptError,
    written_on_exit,
)
from swerl_agent.sandbox import SandboxError
from swerl_agent.storage import finish_in_thread
from swerl_agent.tasks import Task, TaskError

from .artifacts import write_interrupted, write_sample
from .records import SampleId, SampleRecord, SampleRecords
from .samples import SampleRunner

MAX_LOST_IN_A_ROW = 20  # consecutive lost samples that abort the evaluation


class EvaluationAborted(Exception):
    """Too many samples were lost in a row; the message shows one error. A restart resumes the evaluation."""


class Evaluation:
    """Samples of `tasks`, recorded in `folder`."""

    def __init__(
        self,
        tasks: Sequence[Task],
        agent: Agent,
        spec: SampleSpec,
        records: SampleRecords,
        folder: Path,
        *,
        metadata: Mapping[str, Any] | None = None,
        on_record: Callable[[SampleRecord], None] = lambda record: None,
        write_summary: Callable[[], None] = lambda: None,
    ) -> None:
        """`metadata` goes into the artifacts of every sample (see `sample_metadata`).

        `on_record` gets each new record; `write_summary` is called after it, in a thread.
        """
        self._tasks = {task.instance_id: task for task in tasks}
        self._agent, self._spec, self._metadata = agent, spec, metadata or {}
        self._records, self._folder = records, folder
        self._on_record, self._write_summary = on_record, write_summary
        self._lost = 0  # consecutive lost samples

    @property
    def left(self) -> list[SampleId]:
        """Samples to run: first every task's first sample, then every task's second."""
        sample_ids = [(name, sample) for sample in range(self._spec.samples) for name in self._tasks]
        return [sample_id for sample_id in sample_ids if not self._records.has_valid_record(sample_id)]

    @property
    def retryable(self) -> list[SampleId]:
        """Samples left that a retry may settle: all but those whose prompts do not render."""
        known = {sample_id: self._records.of(sample_id) for sample_id in self.left}
        return [
            sample_id for sample_id, record in known.items() if record is None or record.exit_status != PROMPT_FAILED
        ]

    async def run(self, runner: SampleRunner) -> None:
        """Run all samples left; records are kept even if an error is raised.

        Raises EvaluationAborted, PromptError when no prompt renders any more, TaskError when no image has a repository
        any more, LeaseLost, GradingError, OSError.
        """
        left = self.left
        queue = iter(left)
        if left:
            await _all([self._work(queue, runner) for _ in range(min(self._spec.workers, len(left)))])

    async def _work(self, queue: Iterator[SampleId], runner: SampleRunner) -> None:
        for sample_id in queue:
            record = await self._run_sample(sample_id, runner)
            self._on_record(record)
            await asyncio.to_thread(self._write_summary)
            if runner.lost.done():
                runner.lost.result()
            self._lost = 0 if record.valid else self._lost + 1
            if self._lost >= MAX_LOST_IN_A_ROW:
                raise _abort_error(record, f"the last {self._lost} samples")

    async def _run_sample(self, sample_id: SampleId, runner: SampleRunner) -> SampleRecord:
        """The record of one sample, already on disk."""
        started = time.monotonic()
        name, sample = sample_id
        async with written_on_exit(
            lambda episode: self._write_interrupted(sample_id, episode, time.monotonic() - started)
        ) as ended:
            try:
                request = EpisodeRequest(
                    self._tasks[name],
                    group=f"{name}-{sample}",
                    index=sample,
                    temperature=self._spec.temperature,
                    workdir=self._tasks[name].workdir_or(runner.sandbox.workdir),
                    live=self._folder,
                    on_end=ended.append,
                )
                graded = await runner.run(request, self._agent)
            except (SandboxError, KubeError) as error:
                record = _lost(sample_id, f"{type(error).__name__}: {error}", time.monotonic() - started)
                await finish_in_thread(self._records.add, record)
                return record
            ended.clear()
            return await finish_in_thread(self._keep, sample_id, graded, time.monotonic() - started)

    def _keep(self, sample_id: SampleId, graded: GradedEpisode, elapsed: float) -> SampleRecord:
        folder = write_sample(self._folder, graded, self._meta(sample_id, elapsed))
        record = _record(sample_id, graded, elapsed, folder.name)
        self._records.add(record)
        return record

    def _write_interrupted(self, sample_id: SampleId, episode: Episode, elapsed: float) -> None:
        write_interrupted(self._folder, episode, self._meta(sample_id, elapsed))

    def _meta(self, sample_id: SampleId, elapsed: float) -> dict[str, Any]:
        return {
            **self._metadata,
            "sample": sample_id[1],
            "temperature": self._spec.temperature,
            "elapsed": round(elapsed, 1),
        }


def check_records(records: SampleRecords) -> None:
    """Raises PromptError when no recorded sample has a prompt that renders, TaskError when none has a repository."""
    known = records.all
    if known and any(all(is_so(record) for record in known) for is_so in (_lacks_prompt, _lacks_repository)):
        raise _abort_error(known[-1], f"all {len(known)} samples")


def _lacks_prompt(record: SampleRecord) -> bool:
    return record.exit_status == PROMPT_FAILED


def _lacks_repository(record: SampleRecord) -> bool:
    return not record.valid and (record.error or "").startswith(f"{NoRepository.__name__}: ")


def _abort_error(record: SampleRecord, which: str) -> EvaluationAborted | PromptError | TaskError:
    """The error that aborts the evaluation; `record` is the last of `which`."""
    if _lacks_prompt(record):
        return PromptError(f"a template ended {which}, the last at {record.instance_id}: {record.error}")
    if _lacks_repository(record):
        return TaskError(f"no patch can be taken of {which}, the last at {record.instance_id}: {record.error}")
    return EvaluationAborted(f"infrastructure ended {which}; the last error: {record.error}")


async def _all(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run them together; the first failure cancels the others and is raised unchanged.

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


def _lost(sample_id: SampleId, error: str, elapsed: float) -> SampleRecord:
    return SampleRecord(*sample_id, False, False, "lost", "", None, 0, error, round(elapsed, 1), "")


def _record(sample_id: SampleId, graded: GradedEpisode, elapsed: float, folder: str) -> SampleRecord:
    episode, verdict = graded.episode, graded.verdict
    return SampleRecord(
        *sample_id,
        resolved=graded.resolved,
        valid=graded.loss_error is None,
        exit_status=episode.exit_status,
        verdict=verdict.status if verdict else "",
        patch_source=episode.patch_source,
        n_steps=len(episode.commands),
        error=episode.error or graded.loss_error,
        elapsed=round(elapsed, 1),
        run_dir=folder,
    )
