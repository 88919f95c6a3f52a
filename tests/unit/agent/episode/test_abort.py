"""An episode that is cancelled, at each of the places where it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from swerl_agent.episode import BuiltinAgent, Episode, EpisodeRequest, Generation, HFTokenizer, Prompts
from swerl_agent.judge import Judge, Scoring
from swerl_agent.tasks import GroundTruth, Task

from tests.agent_spec import agent_spec, judge_spec
from tests.scripted_engine import Script, block

from .conftest import SUBMIT, CannedSession

TASK = Task("kit__kit-1", "k/k", "0" * 40, "1", "The answer is 42.", "image", GroundTruth("", "", "", ("a",), ()))
ANSWERS = [block("ls"), "no command", block("cat kit.py"), block(SUBMIT.replace("git diff", "git status"))]
NEVER_REACHED = 10_000  # more waits than the episode has


class YieldingScript(Script):
    """A scripted engine that waits before it answers."""

    async def generate(self, input_ids: Sequence[int], **sampling: Any) -> Generation:
        await asyncio.sleep(0)
        return await super().generate(input_ids, **sampling)


class CancelledAt:
    """Runs a coroutine and cancels the task around it where it waits for the `place`-th time (from 0)."""

    def __init__(self, coroutine: Any, wait_number: int) -> None:
        self.coroutine, self.wait_number, self.waits = coroutine, wait_number, 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self.coroutine.__await__()
        resume, value = inner.send, None
        while True:
            try:
                waited_for = resume(value)
            except StopIteration as end:
                return end.value
            if self.waits == self.wait_number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            self.waits += 1
            try:
                resume, value = inner.send, (yield waited_for)
            except BaseException as error:
                resume, value = inner.throw, error  # type: ignore[assignment]


async def attempt(tokenizer: HFTokenizer, wait_number: int) -> tuple[list[Episode], int, bool]:
    """The episodes that were reported, the number of waits, and whether the cancellation came out."""
    episodes: list[Episode] = []
    judge = Judge(YieldingScript(tokenizer, [r"\boxed{1}"] * 9), tokenizer, judge_spec(votes=2))

    async def run_to_end() -> None:
        async with judge.scoring("problem", "g/0") as scoring:
            await run(scoring)
            await scoring.finish()

    async def run(scoring: Scoring) -> Episode:
        agent = BuiltinAgent(YieldingScript(tokenizer, ANSWERS), tokenizer, Prompts.default(), agent_spec())
        request = EpisodeRequest(TASK, group="g", index=0, temperature=1.0, scoring=scoring, on_end=episodes.append)
        return await agent.run_episode(request, CannedSession())

    waiting = CancelledAt(run_to_end(), wait_number)

    async def around() -> None:
        await waiting

    (result,) = await asyncio.gather(asyncio.create_task(around()), return_exceptions=True)
    assert result is None or isinstance(result, asyncio.CancelledError), result
    return episodes, waiting.waits, result is not None


async def test_episode_cancelled_at_any_point_is_reported(tokenizer: HFTokenizer) -> None:
    (complete,), waits, cancelled = await attempt(tokenizer, NEVER_REACHED)
    assert (complete.exit_status, cancelled) == ("submitted", False)
    assert waits >= 2 * len(ANSWERS)
    endings = set()
    for wait_number in range(waits):
        (episode,), _, cancelled = await attempt(tokenizer, wait_number)
        assert cancelled, f"the cancellation at wait {wait_number} was swallowed"
        endings.add(episode.exit_status)
        check(episode)
        assert asyncio.all_tasks() == {asyncio.current_task()}, f"cancelled at wait {wait_number}, something still runs"
    assert endings <= {"cancelled", "submitted"}  # the latter while only scores were waited for
    assert "cancelled" in endings


def check(episode: Episode) -> None:
    """What holds however far an episode came."""
    for segment in episode.segments:
        assert len(segment.tokens) == len(segment.loss_mask) == len(segment.logprobs)
        assert segment.answers[-1][2] == len(segment.tokens)
    answers = [message for message in episode.messages if message["role"] == "assistant"]
    assert len(answers) == episode.turns == sum(len(segment.answers) for segment in episode.segments)
    assert {"total", "model", "environment"} <= episode.timings.keys()
    if episode.exit_status == "cancelled":
        assert episode.error == "cancelled from outside"
