"""Fields of requests that clients send by habit, and those that choose how is sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from swerl_agent.episode import Generation, HFTokenizer

from tests.scripted_engine import Script
from tests.unit.agent.episode.templates import QWEN_3

from .conftest import TOOL, Open, check, message_of, user

# As Qwen3's: whether it thinks is a variable of the template.
SWITCHABLE_THINKING = QWEN_3.replace(
    "<|im_start|>assistant\n{% endif %}",
    "<|im_start|>assistant\n{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
)
NEUTRAL = {"top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "presence_penalty": 0, "top_p": 1, "n": 1}


class RecordingScript(Script):
    """Keeps how it was asked to sample."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sampling: list[dict[str, Any]] = []

    async def generate(self, input_ids: Sequence[int], **sampling: Any) -> Generation:
        self.sampling.append(sampling)
        return await super().generate(
            input_ids, **{k: v for k, v in sampling.items() if k not in ("seed", "truncation")}
        )


@pytest.mark.parametrize(
    ("fields", "seed", "truncation"),
    [
        (NEUTRAL, None, None),
        ({"top_k": 0}, None, None),
        ({"seed": 7, "top_p": 0.9}, 7, {"top_p": 0.9}),
        ({"top_k": 20, "min_p": 0.1}, None, {"top_k": 20, "min_p": 0.1}),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
async def test_request_parameters_reach_the_engine(
    opened: Open, fields: dict[str, Any], seed: int | None, truncation: dict[str, float] | None, nested: bool
) -> None:
    async with opened("one", kind=RecordingScript) as episode:
        await episode.complete(user("Hi"), extra_body={"extra_body": fields} if nested else fields)
        assert isinstance(episode.engine, RecordingScript)
        (sampling,) = episode.engine.sampling
    assert (sampling.get("seed"), sampling.get("truncation")) == (seed, truncation)


@pytest.mark.parametrize(
    "fields",
    [{"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}, {"reasoning_effort": "none"}],
)
async def test_client_can_turn_thinking_off(opened: Open, fields: dict[str, Any]) -> None:
    async with opened("one", "two", "<think>hm</think>three", template=SWITCHABLE_THINKING) as episode:
        first = message_of(await episode.complete(user("Hi"), extra_body=fields))
        await episode.complete(user("Hi"), first, user("And?"), extra_body=fields)
        await episode.complete(user("Hi"))
    closed = "<think>\n\n</think>"
    assert [closed in prompt for prompt in episode.engine.read] == [True, True, False]
    assert [len(segment.answers) for segment in episode.recording.segments] == [2, 1]
    check(episode.recording, 3)


async def test_effort_reaches_the_chat_template(opened: Open) -> None:
    template = QWEN_3 + "{{ '[' + reasoning_effort + ']' if reasoning_effort }}"
    async with opened("one", "two", template=template) as episode:
        await episode.complete(user("Hi"), reasoning_effort="high")
        await episode.complete(user("Hi"))
    assert [prompt.endswith("[high]") for prompt in episode.engine.read] == [True, False]


@pytest.mark.parametrize("arguments", ['{"command": "ls', "ls", "[1]", "", '"ls"'])
async def test_old_call_whose_arguments_are_no_json_is_text(
    opened: Open, with_tools: HFTokenizer, arguments: str
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    old = {"role": "assistant", "content": "So:", "tool_calls": [call]}
    history = [user("Hi"), old, {"role": "tool", "tool_call_id": "1", "content": "bad"}]
    async with opened("one", "two", tokenizer=with_tools) as episode:
        first = message_of(await episode.complete(*history, tools=[TOOL]))
        await episode.complete(*history, first, user("And?"), tools=[TOOL])
    written = f'<tool_call>\n{{"name": "bash", "arguments": {arguments}}}\n</tool_call>'
    assert all(written in prompt for prompt in episode.engine.read)
    assert len(episode.recording.segments) == 1
    check(episode.recording, 2)
