"""Scores of an episode's steps from a scripted judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from swerl_agent.episode import (
    BuiltinAgent,
    EngineError,
    Episode,
    EpisodeRequest,
    Generation,
    HFTokenizer,
    Prompts,
)
from swerl_agent.judge import Judge, StepScore
from swerl_agent.tasks import GroundTruth, Task
from swerl_api import JudgeSpec

from tests.agent_spec import agent_spec, judge_spec
from tests.scripted_engine import Script, block
from tests.unit.agent.episode.conftest import PLAIN, SUBMIT, CannedSession, make_tokenizer

TASK = Task("kit__kit-1", "k/k", "0" * 40, "1", "The answer is 42.", "image", GroundTruth("", "", "", ("a",), ()))
VoteText = Callable[[str, int], str]  # from the judge's prompt and the number of its votes so far


@dataclass
class Voter:
    """A judge's engine; counts how many votes run at once."""

    tokenizer: HFTokenizer
    answer: VoteText
    delay: float = 0.0
    running: int = 0
    most: int = 0
    prompts: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    async def generate(self, input_ids: Sequence[int], *, max_new_tokens: int, **sampling: Any) -> Generation:
        prompt = self.tokenizer.decode(input_ids)
        number = len(self.prompts)
        self.prompts.append(prompt)
        self.seeds.append(sampling["seed"])
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.delay)
            text = self.answer(prompt, number)
        finally:
            self.running -= 1
        ids = self.tokenizer.encode(text)
        reason = "stop" if len(ids) <= max_new_tokens else "length"
        ids = ids[:max_new_tokens]
        return Generation(ids, [-0.1] * len(ids), reason)


@pytest.fixture(scope="session")
def judges_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    template = PLAIN.replace("assistant", "judge")
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("judge"), template))


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("policy"), PLAIN))


async def judged(
    judge: Judge, tokenizer: HFTokenizer, *answers: str, key: str = "g/0"
) -> tuple[Episode, dict[int, StepScore]]:
    """An episode of `answers`, and its scores."""
    async with judge.scoring(TASK.problem_statement, key) as scoring:
        agent = BuiltinAgent(Script(tokenizer, answers), tokenizer, Prompts.default(), agent_spec())
        request = EpisodeRequest(TASK, group="g", index=0, temperature=1.0, scoring=scoring)
        episode = await agent.run_episode(request, CannedSession())
        return episode, await scoring.finish()


def always(text: str) -> VoteText:
    return lambda prompt, count: text


async def test_scores_belong_to_their_step(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    good = r"\boxed{1}"
    voter = Voter(
        judges_tokenizer, lambda prompt, _: good if "$ good" in prompt.split("present")[-1] else r"\boxed{-1}"
    )
    judge = Judge(voter, judges_tokenizer, judge_spec(votes=1))
    answers = [block("good one"), "no command", block("bad"), block("good two"), block(SUBMIT)]
    _, scores = await judged(judge, tokenizer, *answers)
    assert {step: score.score for step, score in scores.items()} == {0: 1.0, 2: -1.0, 3: 1.0}
    assert all(step == score.step for step, score in scores.items())


async def test_judge_reads_its_own_template(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    voter = Voter(judges_tokenizer, always(r"\boxed{1}"))
    await judged(Judge(voter, judges_tokenizer, judge_spec(votes=2)), tokenizer, block("ls"), block(SUBMIT))
    assert len(voter.prompts) == 2
    assert voter.prompts[0].endswith("<|im_start|>judge\n")
    assert "The answer is 42." in voter.prompts[0]


async def test_invalid_votes_do_not_count(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    votes = [r"\boxed{1}", "cannot say", r"\boxed{-1}"]
    voter = Voter(judges_tokenizer, lambda prompt, count: votes[count])
    _, scores = await judged(Judge(voter, judges_tokenizer, judge_spec()), tokenizer, block("ls"), block(SUBMIT))
    assert scores[0].score == 0.0
    assert sorted(scores[0].votes, key=str) == [-1, 1, None]
    assert scores[0].error == "the judge gave no score"


async def test_vote_cut_off_by_length_does_not_count(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    restated = r"The score is \boxed{1} or \boxed{-1}. " + "Point by point. " * 100

    def vote(prompt: str, number: int) -> str:
        return restated + r"\boxed{1}" if number < 2 else r"\boxed{1}"

    spec = judge_spec(votes=3, max_tokens=len(judges_tokenizer.encode(restated)) - 5)
    _, scores = await judged(Judge(Voter(judges_tokenizer, vote), judges_tokenizer, spec), tokenizer, block("ls"))
    assert (scores[0].score, scores[0].votes) == (1.0, (None, None, 1))
    assert "cut off" in scores[0].error


async def test_episode_without_a_judge_has_unscored_steps(
    judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer
) -> None:
    def unavailable(prompt: str, count: int) -> str:
        raise EngineError("the judge's engine gave no answer")

    judge = Judge(Voter(judges_tokenizer, unavailable), judges_tokenizer, judge_spec())
    episode, scores = await judged(judge, tokenizer, block("ls"), block(SUBMIT))
    assert episode.exit_status == "submitted"
    assert scores == {0: StepScore(0, None, (None,) * 3, "the judge's engine gave no answer")}


async def test_internal_error_leaves_the_step_unscored(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    def broken(prompt: str, count: int) -> str:
        raise RuntimeError("surprise")

    judge = Judge(Voter(judges_tokenizer, broken), judges_tokenizer, judge_spec())
    episode, scores = await judged(judge, tokenizer, block("ls"), block(SUBMIT))
    assert (episode.exit_status, scores[0].score) == ("submitted", None)
    assert scores[0].error == "RuntimeError: surprise"


async def test_slow_vote_times_out(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    voter = Voter(judges_tokenizer, always(r"\boxed{1}"), delay=30)
    judge = Judge(voter, judges_tokenizer, judge_spec(timeout_seconds=0.2))
    _, scores = await judged(judge, tokenizer, block("ls"), block(SUBMIT))
    assert scores[0].score is None
    assert "0.2 s" in scores[0].error
    assert voter.running == 0


async def test_one_bound_holds_for_all_episodes_together(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    voter = Voter(judges_tokenizer, always(r"\boxed{1}"), delay=0.01)
    judge = Judge(voter, judges_tokenizer, judge_spec(max_concurrent=4))
    answers = [*[block(f"echo {number}") for number in range(5)], block(SUBMIT)]
    results = await asyncio.gather(*(judged(judge, tokenizer, *answers, key=f"g/{index}") for index in range(8)))
    assert voter.most == 4
    assert all(len(scores) == 5 for _, scores in results)


async def test_step_that_submits_is_judged_only_when_asked_for(
    judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer
) -> None:
    for skip, judged_steps in ((True, [0]), (False, [0, 1])):
        voter = Voter(judges_tokenizer, always(r"\boxed{1}"))
        judge = Judge(voter, judges_tokenizer, judge_spec(votes=1, skip_submit=skip))
        episode, scores = await judged(judge, tokenizer, block("ls"), block(SUBMIT))
        assert (episode.exit_status, sorted(scores)) == ("submitted", judged_steps)


async def test_every_vote_has_its_seed(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    voter = Voter(judges_tokenizer, always(r"\boxed{1}"))
    await judged(Judge(voter, judges_tokenizer, judge_spec(), seed=7), tokenizer, block("ls"), block(SUBMIT))
    assert voter.seeds == [7000, 7001, 7002]


async def test_prompt_that_leaves_no_room_is_unscored(judges_tokenizer: HFTokenizer, tokenizer: HFTokenizer) -> None:
    voter = Voter(judges_tokenizer, always(r"\boxed{1}"))
    judge = Judge(voter, judges_tokenizer, judge_spec(context_tokens=100))
    _, scores = await judged(judge, tokenizer, block("ls"), block(SUBMIT))
    assert "leaves no room" in scores[0].error
    assert not voter.prompts


def test_status_reports_the_judge_of_a_job() -> None:
    spec = JudgeSpec.model_validate(
        {
            "model": {"configMap": {"name": "m"}},
            "votes": 5,
            "aggregation": "majority",
            "maxConcurrent": 9,
            "skipSubmit": False,
            "view": {"historySteps": 3},
        }
    )
    judge = Judge(cast(Any, None), cast(Any, None), spec, processes=2, seed=4)
    assert (judge.spec.votes, judge.spec.aggregation, judge._free_votes._value) == (5, "majority", 4)
    assert (judge.spec.skip_submit, judge.spec.view.history_steps, judge._seed) == (False, 3, 4)
