"""Votes of the judge's engine, as scores of steps.

Guarantees: see the package. `Judge` is shared by the episodes of a process; a `Scoring` belongs to one episode and
leaves nothing running when it is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from swerl_api import JudgeSpec, JudgeView

from swerl_agent.episode import Engine, EngineError, Tokenizer, TokenizerError

from .prompt import judge_messages
from .votes import Aggregation, aggregate, parse_vote

logger = logging.getLogger(__name__)

VOTES_PER_SEED = 1_000  # vote n of a step has the seed VOTES_PER_SEED * seed + n


@dataclass(frozen=True)
class JudgeSettings:
    """How the judge votes; times in seconds, lengths in tokens."""

    votes: int = 3
    aggregation: Aggregation = "mean"
    temperature: float = 1.0
    max_tokens: int = 4_096
    context_tokens: int = 32_768
    max_concurrent: int = 32  # votes at once, of all episodes of this process
    timeout: float = 300.0  # for one vote, and for all that is open when an episode ends
    skip_submit: bool = True  # leave the step that submits unscored
    seed: int = 0  # of the votes, where the engine infers deterministically
    shown: JudgeView = field(default_factory=JudgeView)

    @classmethod
    def of(cls, judge: JudgeSpec, *, processes: int = 1, seed: int = 0) -> JudgeSettings:
        """The settings of a job's `judge` section, its bound shared by `processes`."""
        return cls(
            votes=judge.votes,
            aggregation=judge.aggregation,
            temperature=judge.temperature,
            max_tokens=judge.max_tokens,
            context_tokens=judge.context_tokens,
            max_concurrent=max(1, judge.max_concurrent // processes),
            timeout=judge.timeout_seconds,
            skip_submit=judge.skip_submit,
            seed=seed,
            shown=judge.view,
        )


@dataclass(frozen=True)
class StepScore:
    """The judge's word on one step of an episode."""

    step: int  # the model's answers, counted from 0
    score: float | None  # -1 to 1; None: unscored
    votes: tuple[int | None, ...] = ()  # 1, -1, or None for a vote that came to nothing
    error: str = ""  # why votes came to nothing


class Judge:
    """Scores steps with an engine and a tokenizer of its own."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, settings: JudgeSettings) -> None:
        self.settings = settings
        self._engine, self._tokenizer = engine, tokenizer
        self._room = asyncio.Semaphore(settings.max_concurrent)

    def scoring(self, problem: str, key: str) -> Scoring:
        """The scoring of one episode at `problem`; `key` keeps its votes on one engine."""
        return Scoring(self, problem, key)

    async def score(
        self, step: int, problem: str, answer: str, commands: Sequence[Any], history: Sequence[Any], key: str
    ) -> StepScore:
        """Score one step from its command records and those before it; whatever fails leaves it unscored."""
        try:
            ids = self._tokenizer.prompt(judge_messages(problem, answer, commands, history, self.settings.shown))
        except TokenizerError as error:
            return StepScore(step, None, error=str(error))
        room = min(self.settings.max_tokens, self.settings.context_tokens - len(ids))
        if room < 1:
            return StepScore(step, None, error=f"the judge's prompt of {len(ids)} tokens leaves no room for a vote")
        outcomes = await asyncio.gather(*(self._vote(ids, room, key, vote) for vote in range(self.settings.votes)))
        votes = tuple(vote for vote, _ in outcomes)
        errors = Counter(error for _, error in outcomes if error)
        return StepScore(step, aggregate(votes, self.settings.aggregation), votes, "; ".join(errors))

    async def _vote(self, ids: list[int], room: int, key: str, number: int) -> tuple[int | None, str]:
        """One vote and, where it came to nothing, why."""
        async with self._room:
            try:
                async with asyncio.timeout(self.settings.timeout):
                    generation = await self._engine.generate(
                        ids,
                        max_new_tokens=room,
                        temperature=self.settings.temperature,
                        stop_token_ids=self._tokenizer.stop_token_ids,
                        routing_key=key,
                        seed=VOTES_PER_SEED * self.settings.seed + number,
                    )
            except TimeoutError:
                return None, f"no vote in {self.settings.timeout:g} s"
            except EngineError as error:
                return None, str(error)
        vote = parse_vote(self._tokenizer.decode(generation.output_ids))
        return vote, "" if vote else "the judge gave no score"


class Scoring:
    """The scores of one episode's steps, computed beside it; an asynchronous context manager."""

    def __init__(self, judge: Judge, problem: str, key: str) -> None:
        self._judge, self._problem, self._key = judge, problem, key
        self._tasks: dict[int, asyncio.Task[StepScore]] = {}
        self._history: list[Any] = []

    def step(self, number: int, answer: str, commands: Sequence[dict[str, Any]], *, submits: bool = False) -> None:
        """Have answer `number` (from 0) scored from the records of its commands, unless it `submits` and such are
        skipped; returns at once."""
        if submits and self._judge.settings.skip_submit:
            return
        work = self._judge.score(number, self._problem, answer, list(commands), list(self._history), self._key)
        self._tasks[number] = asyncio.create_task(work, name=f"judge {self._key} {number}")
        self._history += commands

    async def finish(self) -> dict[int, StepScore]:
        """Scores by step, once all are there or the time limit is over; steps without a score say why."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._judge.settings.timeout)
        return {number: self._result(number, task) for number, task in self._tasks.items()}

    async def close(self) -> None:
        """Stop what is still open."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def __aenter__(self) -> Scoring:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _result(self, number: int, task: asyncio.Task[StepScore]) -> StepScore:
        if not task.done():
            return StepScore(number, None, error=f"no score {self._judge.settings.timeout:g} s after the episode's end")
        failure = task.exception()
        if failure is not None:
            logger.error("judging step %d of %s failed", number, self._key, exc_info=failure)
            return StepScore(number, None, error=f"{type(failure).__name__}: {failure}")
        return task.result()
