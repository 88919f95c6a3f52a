"""What a conversation's tokens are: continued as they were sampled, or a branch of their own."""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from swerl_agent.episode import Generation, HFTokenizer

from tests.scripted_engine import Script
from tests.unit.agent.episode.conftest import PLAIN, THINKING
from tests.unit.agent.episode.templates import GLM, QWEN_2_5, QWEN_3, QWEN_3_NO_THINKING

from .conftest import TOOL, BlockedScript, Open, check, message_of, system, user

START = [system("Be terse."), user("Fix it.")]
CALL = 'So:\n<tool_call>\n{"name": "bash", "arguments": {"b": 1, "command": "ls"}}\n</tool_call>'


@pytest.mark.parametrize("template", [PLAIN, THINKING, QWEN_2_5, QWEN_3, QWEN_3_NO_THINKING, GLM])
async def test_continued_conversation_is_one_segment_of_the_sampled_tokens(opened: Open, template: str) -> None:
    answers = ["<think>hm</think>one", "two", "three"]
    async with opened(*answers, template=template) as episode:
        conversation: list[Any] = list(START)
        for _ in answers:
            got = await episode.complete(*conversation)
            conversation += [message_of(got), user("Go on.")]
    check(episode.recording, 3)
    (segment,) = episode.recording.segments
    for (_, start, end), text in zip(segment.answers, answers, strict=True):
        sampled = [index for character in text for index in episode.tokenizer.encode(character)]
        assert segment.tokens[start:end] == [*sampled, episode.tokenizer.turn_end_id]
        assert end - start > len(episode.tokenizer.encode(text))
    assert [m["content"] for m in episode.recording.messages if m["role"] == "assistant"] == answers


@pytest.mark.parametrize(
    "changed",
    [
        lambda message: {"role": "assistant", "content": message["content"]},
        lambda message: {"content": [{"type": "text", "text": message["content"]}], "role": "assistant"},
        lambda message: {**message, "content": message["content"].strip()},
        lambda message: {"role": "assistant", "content": "one", "reasoning_content": "hm"},
        lambda message: {"role": "assistant", "content": "one"},
    ],
)
async def test_changes_by_clients_do_not_affect_the_record(opened: Open, changed: Any) -> None:
    async with opened("<think>hm</think>one ", "two", "three") as episode:
        first = changed(message_of(await episode.complete(*START)))
        second = message_of(await episode.complete(*START, first, user("And?")))
        await episode.complete(*START, first, user("And?"), second, user("Then?"))
    check(episode.recording, 3)
    assert len(episode.recording.segments) == 1


async def test_tool_calls_are_matched_despite_new_ids_and_key_order(opened: Open, with_tools: HFTokenizer) -> None:
    async with opened(CALL, "Done.", tokenizer=with_tools) as episode:
        first = message_of(await episode.complete(*START, tools=[TOOL]))
        (call,) = first["tool_calls"]
        arguments = dict(reversed(json.loads(call["function"]["arguments"]).items()))
        call |= {"id": "other", "function": {"arguments": json.dumps(arguments, indent=1), "name": "bash"}}
        result = {"role": "tool", "tool_call_id": "other", "content": "f<|im_end|>"}
        await episode.complete(*START, {**first, "content": "So:"}, result, result, user("Go on."), tools=[TOOL])
    check(episode.recording, 2)
    (segment,) = episode.recording.segments
    following = episode.tokenizer.decode(segment.tokens[segment.answers[0][2] : segment.answers[1][1]])
    assert following == (
        "\n<|im_start|>user<tool_response>\nf<|im_end|>\n</tool_response><tool_response>\nf<|im_end|>\n"
        "</tool_response><|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert segment.tokens.count(episode.tokenizer.turn_end_id) == 2 + 1 + 2 + 1


async def test_control_token_in_an_answer_or_result_is_encoded_as_text(opened: Open, with_tools: HFTokenizer) -> None:
    mark = "<|im_end|>"
    invented = {
        "role": "assistant",
        "content": mark,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "bash", "arguments": f'{{"x": "{mark}"}}'}}
        ],
    }
    result = {"role": "tool", "tool_call_id": "1", "content": mark}
    async with opened("ok", tokenizer=with_tools) as episode:
        await episode.complete(system(mark), user(mark), invented, result, tools=[TOOL])
    (segment,) = episode.recording.segments
    prompt = segment.tokens[: segment.prompt_length]
    assert prompt.count(episode.tokenizer.turn_end_id) == 4
    assert episode.tokenizer.decode(prompt).count(mark) == 4 + 5


async def test_retry_is_a_branch_of_the_same_parent(opened: Open) -> None:
    async with opened("one", "other", "two", "three") as episode:
        first, other = message_of(await episode.complete(*START)), message_of(await episode.complete(*START))
        await episode.complete(*START, first, user("And?"))
        await episode.complete(*START, other, user("And?"))
    check(episode.recording, 4)
    assert [[step for step, _, _ in segment.answers] for segment in episode.recording.segments] == [[0, 2], [1, 3]]


async def test_two_branches_of_one_answer_train_it_once(opened: Open) -> None:
    async with opened("one", "two", "three") as episode:
        first = message_of(await episode.complete(*START))
        await episode.complete(*START, first, user("This way."))
        await episode.complete(*START, first, user("That way."))
    check(episode.recording, 3)
    first_segment, second_segment = episode.recording.segments
    shared = first_segment.answers[0][2]
    assert second_segment.tokens[:shared] == first_segment.tokens[:shared]
    assert (sum(second_segment.loss_mask[:shared]), second_segment.prompt_length) == (0, second_segment.answers[0][1])


async def test_edited_or_dropped_history_is_a_branch_as_the_template_renders_it(opened: Open) -> None:
    async with opened("one", "two", "three", "four") as episode:
        first = message_of(await episode.complete(*START))
        second = message_of(await episode.complete(*START, first, user("And?")))
        await episode.complete(*START, {"role": "assistant", "content": "uno"}, user("And?"), second, user("Then?"))
        await episode.complete(*START, user("And?"), second, user("Then?"))
    check(episode.recording, 4)
    _, edited, dropped = episode.recording.segments
    text = episode.tokenizer.decode(edited.tokens[: edited.prompt_length])
    assert "uno<|im_end|>" in text and "two<|im_end|>" in text
    assert "uno" not in episode.tokenizer.decode(dropped.tokens)


async def test_request_with_other_tools_starts_another_branch(opened: Open, with_tools: HFTokenizer) -> None:
    async with opened("one", "two", tokenizer=with_tools) as episode:
        first = message_of(await episode.complete(*START))
        await episode.complete(*START, first, user("And?"), tools=[TOOL])
    assert len(episode.recording.segments) == 2
    check(episode.recording, 2)


class RandomScript(Script):
    """Samples by chance; the log-prob of a token depends on all that was read before it, and on nothing else."""

    @staticmethod
    def logprob(prefix: Sequence[int], token: int) -> float:
        return -float(zlib.crc32(repr([*prefix, token]).encode()) + 1)

    async def generate(
        self, input_ids: Sequence[int], *, max_new_tokens: int, temperature: float, stop_token_ids: Sequence[int],
        routing_key: str,
        seed: int | None = None,
    ) -> Generation:  # fmt: skip
        rng = random.Random(len(self.read))
        self.read.append("")
        ids = [*rng.choices(range(20, 300), k=rng.randint(0, 5)), *rng.choices([[], [stop_token_ids[0]]])[0]]
        logprobs = [self.logprob([*input_ids, *ids[:n]], token) for n, token in enumerate(ids)]
        return Generation(ids, logprobs, "stop", [("1", 0, len(ids))])


@pytest.mark.parametrize("seed", range(20))
async def test_every_token_is_trained_with_the_context_it_was_sampled_in(
    opened: Open, with_tools: HFTokenizer, seed: int
) -> None:
    """Whatever an agent does with its history."""
    rng = random.Random(seed)
    conversations: list[list[Any]] = [[*START], [system("Sub-agent.")]]
    async with opened(tokenizer=with_tools, kind=RandomScript, step_limit=100) as episode:
        for _ in range(25):
            conversation = list(rng.choice(conversations))
            if rng.random() < 0.3 and len(conversation) > 2:
                del conversation[rng.randrange(len(conversation))]
            additions = rng.sample([user("Go on."), user("<|im_end|>"), {"role": "tool", "content": "x"}], k=2)
            got = message_of(await episode.complete(*conversation, *additions, tools=rng.choice([[TOOL], []])))
            conversations.append([*conversation, *additions, got])
    check(episode.recording, 25)
    for segment in episode.recording.segments:
        for _, start, end in segment.answers:
            for position in range(start, end):
                assert segment.logprobs[position] == RandomScript.logprob(
                    segment.tokens[:position], segment.tokens[position]
                )


async def test_requests_at_the_same_time_are_branches(opened: Open) -> None:
    async with opened("a", "b", "c", "d", kind=BlockedScript) as episode:
        assert isinstance(episode.engine, BlockedScript)
        conversations = [[*START], [*START], [system("Sub-agent."), user("Look.")]]
        completions = [asyncio.create_task(episode.complete(*conversation)) for conversation in conversations]
        await episode.engine.requested.wait()
        episode.engine.go.set()
        await asyncio.gather(*completions)
        await episode.complete(*START, message_of(completions[1].result()), user("And?"))
    check(episode.recording, 4)
    assert len(episode.recording.segments) == 3
