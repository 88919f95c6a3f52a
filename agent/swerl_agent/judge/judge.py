"""Scores of steps from votes of the judge's engine.

Guarantees: see the package. The episodes of a process share one `Judge`. A `Scoring` belongs to one episode and leaves
nothing running when it is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from swerl_api import JudgeSpec

from swerl_agent.episode import Engine, EngineError, Tokenizer, TokenizerError

from .prompt import judge_messages
from .votes import aggregate, parse_vote

logger = logging.getLogger(__name__)

VOTES_PER_SEED = 1_000  # vote n of a step has the seed VOTES_PER_SEED * seed + n


@dataclass(frozen=True)
class StepScore:
    """The judge's score of one step of an episode."""

    step: int  # the model's answers, counted from 0
    score: float | None  # -1 to 1; None: unscored
    votes: tuple[int | None, ...] = ()  # 1, -1, or None for an invalid vote
    error: str = ""  # why votes are invalid


class Judge:
    """Scores steps with its own engine and tokenizer.

    `processes` share the spec's maxConcurrent; `seed` makes the votes of a deterministic engine reproducible.
    """

    def __init__(
        self, engine: Engine, tokenizer: Tokenizer, spec: JudgeSpec, *, processes: int = 1, seed: int = 0
    ) -> None:
        self.spec = spec
        self._engine, self._tokenizer, self._seed = engine, tokenizer, seed
        self._free_votes = asyncio.Semaphore(max(1, spec.max_concurrent // processes))

    def scoring(self, problem: str, key: str) -> Scoring:
        """The scoring of one episode at `problem`; `key` keeps its votes on one engine."""
        return Scoring(self, problem, key)

    async def score(
        self, step: int, problem: str, answer: str, commands: Sequence[Any], history: Sequence[Any], key: str
    ) -> StepScore:
        """Score one step from its command records and those before it; any failure leaves it unscored."""
        try:
            ids = self._tokenizer.prompt(judge_messages(problem, answer, commands, history, self.spec.view))
        except TokenizerError as error:
            return StepScore(step, None, error=str(error))
        room = min(self.spec.max_tokens, self.spec.context_tokens - len(ids))
        if room < 1:
            return StepScore(step, None, error=f"the judge's prompt of {len(ids)} tokens leaves no room for a vote")
        outcomes = await asyncio.gather(*(self._vote(ids, room, key, vote) for vote in range(self.spec.votes)))
        votes = tuple(vote for vote, _ in outcomes)
        errors = Counter(error for _, error in outcomes if error)
        return StepScore(step, aggregate(votes, self.spec.aggregation), votes, "; ".join(errors))

    async def _vote(self, ids: list[int], room: int, key: str, number: int) -> tuple[int | None, str]:
        """One vote and, where it is invalid, the reason."""
        async with self._free_votes:
            try:
                async with asyncio.timeout(self.spec.timeout_seconds):
                    generation = await self._engine.generate(
                        ids,
                        max_new_tokens=room,
                        temperature=self.spec.temperature,
                        stop_token_ids=self._tokenizer.stop_token_ids,
                        routing_key=key,
                        seed=VOTES_PER_SEED * self._seed + number,
                    )
            except TimeoutError:
                return None, f"no vote in {self.spec.timeout_seconds:g} s"
            except EngineError as error:
                return None, str(error)
        if generation.finish_reason == "length":  # what it quoted so far is not its score
            return None, f"the vote was cut off after {room} tokens (judge.maxTokens, judge.contextTokens)"
        vote = parse_vote(self._tokenizer.decode(generation.output_ids))
        return vote, "" if vote else "the judge gave no score"


class Scoring:
    """The scores of one episode's steps, computed beside it; an asynchronous context manager."""

    def __init__(self, judge: Judge, problem: str, key: str) -> None:
        self._judge, self._problem, self._key = judge, problem, key
        self._tasks: dict[int, asyncio.Task[StepScore]] = {}
        self._history: list[Any] = []

    def step(self, number: int, answer: str, commands: Sequence[dict[str, Any]], *, submits: bool = False) -> None:
        """Start scoring answer `number` (from 0) from its command records; returns at once.

        A step that `submits` is skipped where the spec says skipSubmit.
        """
        if submits and self._judge.spec.skip_submit:
            return
        work = self._judge.score(number, self._problem, answer, list(commands), list(self._history), self._key)
        self._tasks[number] = asyncio.create_task(work, name=f"judge {self._key} {number}")
        self._history += commands

    async def finish(self) -> dict[int, StepScore]:
        """Scores by step, once all are there or the timeout has passed; steps without a score carry the reason."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._judge.spec.timeout_seconds)
        return {number: self._result(number, task) for number, task in self._tasks.items()}

    async def close(self) -> None:
        """Cancel open votes."""
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
            return StepScore(
                number, None, error=f"no score {self._judge.spec.timeout_seconds:g} s after the episode's end"
            )
        failure = task.exception()
        if failure is not None:
            logger.error("judging step %d of %s failed", number, self._key, exc_info=failure)
            return StepScore(number, None, error=f"{type(failure).__name__}: {failure}")
        return task.result()
