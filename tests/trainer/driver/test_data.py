"""Demonstrations, samples and the state of a checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.episode import PROTOCOLS, Episode, Generation, HFTokenizer, TokenSegment
from swerl_agent.episode.transcript import Transcript
from swerl_api import AgentSpec
from swerl_api.algorithm import AlgorithmSpec, StepwiseSpec
from swerl_trainer.algorithm import TrainingSample
from swerl_trainer.driver.state import TimeEstimate, TrainingState
from swerl_trainer.driver.supervised import demonstrations_of, read_demonstrations
from swerl_trainer.driver.training_samples import training_samples
from swerl_trainer.job import Job, JobError
from swerl_trainer.rollout.actor import _encoding
from swerl_trainer.rollout.group import Rollout

from tests.unit.agent.episode.conftest import PLAIN, TOOLS, make_tokenizer


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("plain"), PLAIN))


@pytest.fixture(scope="module")
def with_tools(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    folder = make_tokenizer(tmp_path_factory.mktemp("tools"), TOOLS)
    return HFTokenizer(folder, tools=PROTOCOLS["mini-swe-agent-2-tools"].tools)


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return path


def conversation(*turns: str) -> dict[str, object]:
    roles = ["system", "user", *(["assistant", "user"] * len(turns))]
    return {"messages": [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]}


def trained(tokenizer: HFTokenizer, sample: TrainingSample) -> str:
    return tokenizer.decode([token for token, mask in zip(sample.tokens, sample.loss_mask, strict=True) if mask])


def test_answers_and_their_end_are_trained(tmp_path: Path, plain: HFTokenizer) -> None:
    path = write(tmp_path / "d.jsonl", conversation("s", "u", "ab", "o\u2028p", "c"))
    (sample,) = read_demonstrations(path, plain, context_tokens=100)
    assert trained(plain, sample) == "ab<|im_end|>c<|im_end|>"
    assert plain.decode(sample.tokens) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\nab<|im_end|>\n"
        "<|im_start|>user\no\u2028p<|im_end|>\n<|im_start|>assistant\nc<|im_end|>"
    )


def test_demonstration_is_what_an_episode_that_samples_it_records(tmp_path: Path, plain: HFTokenizer) -> None:
    answers = ["<think>\nwhy\n</think>\n\nls", "<think>so</think>done"]
    path = write(tmp_path / "d.jsonl", conversation("s", "u", answers[0], "o", answers[1]))
    (sample,) = read_demonstrations(path, plain, context_tokens=1000)
    opening = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    transcript = Transcript(plain, opening, AgentSpec(context_tokens=1000, max_tokens_per_turn=10))
    for answer in answers:
        ids = [*plain.encode_answer(answer), plain.turn_end_id]
        transcript.answer(Generation(ids, [-1.0] * len(ids), "stop"))
        transcript.observe("o")
    (segment,) = transcript.segments
    assert (list(sample.tokens), list(sample.loss_mask)) == (segment.tokens, segment.loss_mask)


def test_results_of_tools_follow_a_call_together(tmp_path: Path, with_tools: HFTokenizer) -> None:
    roles = ["system", "user", "assistant", "tool", "tool", "assistant"]
    texts = ["s", "u", "<tool_call>\n{}\n</tool_call>", "one", "two", "done"]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    (sample,) = read_demonstrations(
        write(tmp_path / "d.jsonl", {"messages": messages}), with_tools, context_tokens=2000
    )
    assert trained(with_tools, sample) == f"{texts[2]}<|im_end|>done<|im_end|>"
    assert "one\n</tool_response><tool_response>\ntwo" in with_tools.decode(sample.tokens)


def test_token_rows_are_used_unchanged(tmp_path: Path, plain: HFTokenizer) -> None:
    path = write(tmp_path / "d.jsonl", {"tokens": [1, 2, 3], "loss_mask": [0, 0, 1]})
    assert read_demonstrations(path, plain, context_tokens=3)[0].tokens == [1, 2, 3]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (conversation("s", "u"), "roles"),
        ({"messages": [{"role": "user", "content": "u"}] * 3}, "roles"),
        ({"messages": [{"role": r, "content": "x"} for r in ("system", "user", "assistant", "assistant")]}, "roles"),
        ({"tokens": [1], "loss_mask": []}, "mask entries"),
        ({"tokens": [1] * 9, "loss_mask": [1] * 9}, "contextTokens"),
        ({"text": "x"}, "needs"),
        (3, "object"),
    ],
)
def test_invalid_demonstrations_are_named_by_line(
    tmp_path: Path, plain: HFTokenizer, row: object, message: str
) -> None:
    path = write(tmp_path / "d.jsonl", {"tokens": [1], "loss_mask": [1]}, row)
    with pytest.raises(JobError, match=rf"d\.jsonl:2.*{message}"):
        read_demonstrations(path, plain, context_tokens=8)


def test_missing_demonstrations_name_the_field_to_check(tmp_path: Path, plain: HFTokenizer) -> None:
    with pytest.raises(JobError, match=r"algorithm\.sft\.data"):
        read_demonstrations(tmp_path / "no", plain, context_tokens=8)


def test_supervised_steps_walk_through_all_demonstrations(tmp_path: Path, plain: HFTokenizer) -> None:
    path = write(tmp_path / "d.jsonl", *({"tokens": [i], "loss_mask": [1]} for i in range(6)))
    samples = read_demonstrations(path, plain, context_tokens=8)
    first_tokens = [s.tokens[0] for step in range(3) for s in demonstrations_of(step, samples, batch_size=2, seed=1)]
    assert sorted(first_tokens) == list(range(6))


def rollout(*masks: list[int]) -> Rollout:
    """Answers are runs of ones; step numbers continue over the segments."""
    segments, step = [], 0
    for mask in masks:
        segment = TokenSegment(list(range(len(mask))), mask, [-0.5 * sampled for sampled in mask])
        for run in re.finditer("1+", "".join(map(str, mask))):
            segment.answers.append((step, *run.span()))
            step += 1
        segments.append(segment)
    return Rollout("g", 0, "t", valid=True, segments=segments)


def test_trajectory_is_one_sample_or_one_per_answer() -> None:
    mask = [0, 0, 1, 1, 0, 1]
    (sample,) = training_samples(rollout(mask), AlgorithmSpec())
    assert (len(sample.tokens), list(sample.loss_mask)) == (6, mask)
    first, second = training_samples(rollout(mask), AlgorithmSpec(dynamic_history=True))
    assert (list(first.loss_mask), len(first.tokens), first.step) == ([0, 0, 1, 1], 4, 0)
    assert (list(second.loss_mask), len(second.tokens), second.step) == ([0, 0, 0, 0, 0, 1], 6, 1)
    assert first.trajectory == second.trajectory


def test_each_segment_of_a_cut_context_is_a_training_sample() -> None:
    first, second = training_samples(rollout([0, 1, 0, 1], [0, 0, 1]), AlgorithmSpec())
    assert first.trajectory == second.trajectory
    assert (list(first.loss_mask), list(second.loss_mask)) == ([0, 1, 0, 1], [0, 0, 1])
    assert len(training_samples(rollout([0, 1, 0, 1], [0, 0, 1]), AlgorithmSpec(dynamic_history=True))) == 3


def test_stepwise_reward_adds_the_outcome_and_the_score() -> None:
    scored = replace(rollout([0, 1, 0, 1]), outcome=-1.0, reward=-0.5, step_scores={1: 1.0})
    (sample,) = training_samples(scored, AlgorithmSpec())
    assert (sample.reward, sample.step_rewards) == (-0.5, {})
    (stepwise,) = training_samples(scored, AlgorithmSpec(stepwise=StepwiseSpec(enabled=True, judge_weight=0.5)))
    assert (stepwise.reward, stepwise.step_rewards) == (-1.0, {1: -0.5})
    assert [answer for answer, _, _ in stepwise.answers] == [0, 1]


def test_job_may_train_on_text_that_its_window_holds(make_job: Callable[..., Job], plain: HFTokenizer) -> None:
    messages = conversation("s", "u", "ls", "o", "x" * 600, "o", "never read")["messages"]
    episode = Episode("t", "g", 0, messages=messages)  # type: ignore[arg-type]
    assert _encoding(make_job(), plain) is None
    encode = _encoding(make_job(algorithm={"encoding": "text"}), plain)
    assert encode is not None
    (segment,) = encode(episode)
    assert ([step for step, _, _ in segment.answers], segment.logprobs) == ([0, 1], [])
    (sample,) = training_samples(Rollout("g", 0, "t", valid=True, segments=[segment]), AlgorithmSpec())
    assert trained(plain, sample) == f"ls<|im_end|>{'x' * 600}<|im_end|>"


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize(("ended", "trained"), [("submitted", True), ("max_steps", False)])
def test_compact_filter_trains_submissions_alone_and_counts_all(per_step: bool, ended: str, trained: bool) -> None:
    ending = replace(rollout([0, 1, 0, 1]), exit_status=ended, reward=-1.0)
    found = training_samples(ending, AlgorithmSpec(dynamic_history=per_step, compact_filter=True))
    assert {bool(sample.trainable_tokens) for sample in found} == {trained}
    assert all(sample.valid and sample.reward == -1.0 for sample in found)
    assert all(sample.trainable_tokens for sample in training_samples(ending, AlgorithmSpec(dynamic_history=per_step)))


def test_rollout_without_tokens_is_still_a_sample() -> None:
    (sample,) = training_samples(Rollout("g", 0, "t", valid=False), AlgorithmSpec(dynamic_history=True))
    assert not sample.valid


def test_state_survives_json() -> None:
    state = TrainingState(step=3, position=9, pending=[7, 8], held_out={"before": 0.5}, unchanged=[2])
    assert TrainingState.from_json(json.loads(json.dumps(state.as_json()))) == state


@pytest.mark.parametrize(("unchanged", "in_a_row"), [([], 0), ([1, 2], 0), ([1, 3], 1), ([1, 2, 3], 3)])
def test_steps_without_signal_count_back_from_the_last_one(unchanged: list[int], in_a_row: int) -> None:
    assert TrainingState(step=3, unchanged=unchanged).without_signal == in_a_row


def test_time_left_follows_recent_steps() -> None:
    estimate = TimeEstimate()
    assert estimate.remaining(3) is None
    for seconds in (100.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        estimate.add(seconds)
    assert estimate.remaining(10) == 10
