"""What the model sees when not all turns fit, and what it is then trained on."""

from __future__ import annotations

import pytest
from swerl_agent.episode import HFTokenizer, training_segments
from swerl_agent.episode.context import Window, answer_room, choose_window, max_input_tokens, omission_note
from swerl_agent.episode.engine import Generation
from swerl_agent.episode.transcript import Transcript
from swerl_api import AgentSpec

MESSAGES = [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Fix wrap."}]
WINDOW = AgentSpec(context_tokens=1_200, max_tokens_per_turn=200)


def test_answer_tokens_are_reserved_and_the_rest_is_split() -> None:
    assert max_input_tokens(AgentSpec(context_tokens=16_384, max_tokens_per_turn=4_096)) == 12_288
    assert choose_window([1] * 20_000, 11_500, 0.3, slack=0.0) == Window(3_450, 20_000 - 8_050)
    assert max_input_tokens(AgentSpec(context_tokens=100, max_tokens_per_turn=4_096)) == 1


@pytest.mark.parametrize(
    ("costs", "available", "window"),
    [
        ([10] * 10, 100, Window(3, 3)),  # all fits
        ([10] * 20, 100, Window(3, 13)),  # 30 for the head, 70 for the tail
        ([40, *[10] * 19], 100, Window(0, 10)),  # the head takes no misfit, its room goes to the tail
        ([10] * 5 + [90], 100, Window(1, 5)),  # a large observation leaves the head what is left
        ([10] * 5 + [500], 100, Window(0, 5)),  # the latest stays even where it fits nothing
        ([10] * 5 + [500], -3, Window(0, 5)),
        ([500, 10], 100, Window(0, 1)),
        ([500], 100, Window(0, 0)),
    ],
)
def test_head_and_tail_without_slack(costs: list[int], available: int, window: Window) -> None:
    assert choose_window(costs, available, 0.3, slack=0.0) == window


def test_truncation_frees_room_for_later_turns() -> None:
    window = choose_window([10] * 200, 1000, 0.3, slack=0.25)
    assert window == Window(30, 200 - 52)


class Conversation:
    """A conversation of answers and observations, and everything the engine read."""

    def __init__(self, tokenizer: HFTokenizer, spec: AgentSpec) -> None:
        self.tokenizer, self.transcript = tokenizer, Transcript(tokenizer, MESSAGES, spec)
        self.read: list[list[int]] = []

    def turn(self, answer: str, observation: str) -> None:
        self.answer(answer)
        self.transcript.observe(observation)

    def answer(self, text: str) -> None:
        self.read.append(list(self.transcript.input_ids()))
        ids = [*self.tokenizer.encode(text), self.tokenizer.turn_end_id]
        self.transcript.answer(Generation(ids, [-0.5] * len(ids), "stop", [("1", 0, len(ids))]))

    @property
    def prompt(self) -> str:
        return self.tokenizer.decode(self.transcript.input_ids())


@pytest.fixture
def chat(tokenizer: HFTokenizer) -> Conversation:
    chat = Conversation(tokenizer, WINDOW)
    for number in range(60):
        chat.turn(f"look at {number};", f"file {number} has a line")
    return chat


def test_omitted_middle_is_marked(chat: Conversation) -> None:
    prompt = chat.prompt
    assert "Fix wrap." in prompt
    assert "look at 0;" in prompt
    assert "file 59 has" in prompt
    assert "look at 20;" not in prompt
    assert omission_note(chat.transcript.omitted) in prompt
    assert len(chat.transcript.input_ids()) <= 1_000


def test_no_two_messages_of_one_role_follow_each_other(chat: Conversation, tokenizer: HFTokenizer) -> None:
    for ids in (*chat.read, chat.transcript.input_ids()):
        roles = [part.split("\n", 1)[0] for part in tokenizer.decode(ids).split("<|im_start|>")[1:]]
        assert roles == ["system", *["user", "assistant"] * ((len(roles) - 1) // 2)]


def test_window_moves_in_chunks(chat: Conversation) -> None:
    moves = len(chat.transcript.segments) - 1
    assert 1 <= moves <= 10
    rewrites = sum(after[: len(before)] != before for before, after in zip(chat.read, chat.read[1:], strict=False))
    assert rewrites <= moves


def test_context_of_a_step_grows_by_its_own_observation_only(
    tokenizer: HFTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    encode = tokenizer._piece
    monkeypatch.setattr(tokenizer, "_piece", lambda text: encoded.append(len(text)) or encode(text))
    chat, costs = Conversation(tokenizer, WINDOW), []
    for number in range(100, 400):
        encoded_before = sum(encoded)
        chat.turn(f"look at {number};", f"file {number} has a line")
        costs.append(sum(encoded) - encoded_before)
    assert len(chat.transcript.segments) > 5
    assert max(costs[1:]) <= 5 * min(costs)


def test_every_answer_is_trained_once_with_what_was_read(chat: Conversation, tokenizer: HFTokenizer) -> None:
    segments = chat.transcript.segments
    answers = [answer for segment in segments for answer in segment.answers]
    assert [step for step, _, _ in answers] == list(range(60))
    for segment in segments:
        spans = {index for _, start, end in segment.answers for index in range(start, end)}
        assert [index in spans for index in range(len(segment.tokens))] == [bool(mask) for mask in segment.loss_mask]
        for step, start, end in segment.answers:
            assert segment.tokens[:start] == chat.read[step]
            assert tokenizer.decode(segment.tokens[start:end]) == f"look at {step};<|im_end|>"


def test_dynamic_history_is_one_sample_per_step(chat: Conversation) -> None:
    steps = training_segments(chat.transcript.segments, dynamic_history=True)
    assert len(steps) == 60
    for number, sample in enumerate(steps):
        assert sample.tokens[: sample.prompt_length] == chat.read[number]
        sampled = len(sample.tokens) - sample.prompt_length
        assert sample.loss_mask == [0] * sample.prompt_length + [1] * sampled
        assert sample.logprobs == [0.0] * sample.prompt_length + [-0.5] * sampled
        assert sample.weight_versions == [("1", sample.prompt_length, len(sample.tokens))]
    assert training_segments(chat.transcript.segments, dynamic_history=False) == chat.transcript.segments


def test_latest_observation_is_kept_when_larger_than_the_tail(tokenizer: HFTokenizer) -> None:
    chat = Conversation(tokenizer, WINDOW)
    for number in range(10):
        chat.turn(f"look at {number};", "short")
    chat.turn("cat all", "x" * 2_000 + " the end")
    assert "the end" in chat.prompt
    assert "look at 9;" not in chat.prompt
    assert omission_note(10) in chat.prompt


def test_single_turn_is_never_left_out(tokenizer: HFTokenizer) -> None:
    chat = Conversation(tokenizer, AgentSpec(context_tokens=100, max_tokens_per_turn=90))
    chat.turn("ls", "x" * 500)
    assert "x" * 500 in chat.prompt
    assert chat.transcript.room() < 0


@pytest.mark.parametrize(("length", "omits", "answer_tokens"), [
    (0, True, 100), (60, True, 40), (61, True, 39), (100, True, 0), (0, False, 100), (60, False, 40), (61, False, 0),
])  # fmt: skip
def test_answer_gets_its_whole_reserve_or_none_without_truncation(length: int, omits: bool, answer_tokens: int) -> None:
    spec = AgentSpec(context_tokens=100, max_tokens_per_turn=40, context_policy="omit" if omits else "stop")
    assert answer_room(spec, length) == answer_tokens


def test_truncation_free_conversation_is_one_sequence(tokenizer: HFTokenizer) -> None:
    chat, number = Conversation(tokenizer, WINDOW.model_copy(update={"context_policy": "stop"})), 0
    while chat.transcript.room() >= 1:
        chat.turn(f"look at {number};", f"file {number} has a line")
        number += 1
    assert chat.transcript.omitted == 0 and len(chat.transcript.segments) == 1
    assert "look at 0;" in chat.prompt and f"file {number - 1} has" in chat.prompt
    assert 1_000 < len(chat.transcript.input_ids()) <= 1_200
