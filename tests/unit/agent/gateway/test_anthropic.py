"""The Anthropic client against the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from swerl_agent.episode import EngineError, HFTokenizer

from tests.unit.agent.episode.conftest import THINKING
from tests.unit.agent.episode.templates import GLM, QWEN_2_5, QWEN_3

from .conftest import BlockedScript, GatewayEpisode, Open, check, user

CALL = '<tool_call>\n{"name": "Bash", "arguments": {"command": "ls"}}\n</tool_call>'
TOOL: dict[str, Any] = {
    "name": "Bash",
    "description": "Run it.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
}
SYSTEM = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch={};"},
    {"type": "text", "text": "Be terse.", "cache_control": {"type": "ephemeral"}},
]


@asynccontextmanager
async def client(episode: GatewayEpisode) -> AsyncIterator[Any]:
    url = episode.endpoint.anthropic_url
    async with AsyncAnthropic(base_url=url, api_key=episode.endpoint.api_key, max_retries=0) as opened:
        yield opened.messages


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "cache_control": {"type": "ephemeral"}}


async def test_message_has_text_reason_and_usage(opened: Open) -> None:
    async with opened("Hello.") as episode, client(episode) as messages:
        got = await messages.create(model="policy", max_tokens=99, messages=[user("Hi")], system="Be terse.")
    (segment,) = episode.recording.segments
    assert [(block.type, block.text) for block in got.content] == [("text", "Hello.")]
    assert (got.stop_reason, got.usage.input_tokens) == ("end_turn", segment.prompt_length)
    assert got.usage.input_tokens + got.usage.output_tokens == len(segment.tokens)
    assert "system\nBe terse." in episode.engine.read[0]


@pytest.mark.parametrize("stream", [False, True])
async def test_conversation_with_tools_is_one_segment(opened: Open, with_tools: HFTokenizer, stream: bool) -> None:
    answers = [f"<think>hm</think>So:\n{CALL}\n{CALL}", f"<think>ah</think>\n{CALL}", "Done."]
    conversation: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Fix it."}]}]
    async with opened(*answers, tokenizer=with_tools) as episode, client(episode) as messages:
        for number in range(3):
            system = [{**SYSTEM[0], "text": SYSTEM[0]["text"].format(number)}, SYSTEM[1]]
            request = {"system": system, "messages": conversation, "tools": [TOOL], "model": "m", "max_tokens": 500}
            if stream:
                async with messages.stream(**request) as streamed:
                    got = await streamed.get_final_message()
            else:
                got = await messages.create(**request)
            ids = [block.id for block in got.content if block.type == "tool_use"]
            results = [result(each, [{"type": "text", "text": "kit.py"}]) for each in ids]
            conversation += [
                {"role": "assistant", "content": got.model_dump()["content"]},
                {
                    "role": "user",
                    "content": [*results, {"type": "text", "text": "<system-reminder>Go.</system-reminder>"}],
                },
            ]
    kinds = [
        [block["type"] for block in message["content"]] for message in conversation if message["role"] == "assistant"
    ]
    assert kinds == [["thinking", "text", "tool_use", "tool_use"], ["thinking", "tool_use"], ["text"]]
    (call,) = [block for block in conversation[3]["content"] if block["type"] == "tool_use"]
    assert (call["name"], call["input"]) == ("Bash", {"command": "ls"})
    assert (got.stop_reason, len(episode.recording.segments)) == ("end_turn", 1)
    assert "billing" not in episode.engine.read[0] and episode.engine.read[2].count("kit.py") == 3
    check(episode.recording, 3)


@pytest.mark.parametrize("template", [THINKING, QWEN_2_5, QWEN_3, GLM])
@pytest.mark.parametrize("keep", [True, False])
async def test_reasoning_may_be_sent_back_or_not(opened: Open, template: str, keep: bool) -> None:
    opens = template == THINKING
    first = "hm</think>one" if opens else "<think>hm</think>one"
    async with opened(first, "two", template=template) as episode, client(episode) as messages:
        got = (await messages.create(model="m", max_tokens=99, messages=[user("Hi")])).model_dump()["content"]
        assert [block["type"] for block in got] == ["thinking", "text"]
        kept = [block for block in got if keep or block["type"] != "thinking"]
        more = [user("Hi"), {"role": "assistant", "content": kept}, user("And?")]
        await messages.create(model="m", max_tokens=99, messages=more)
    assert len(episode.recording.segments) == 1
    check(episode.recording, 2)


async def test_stop_sequence_and_the_longest_answer_are_the_reasons(opened: Open) -> None:
    async with opened("yes END and", "word " * 50) as episode, client(episode) as messages:
        request = {"model": "m", "messages": [user("Hi")]}
        stopped = await messages.create(max_tokens=99, stop_sequences=["END"], **request)
        truncated = await messages.create(max_tokens=7, **request)
    assert (stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text) == ("stop_sequence", "END", "yes ")
    assert (truncated.stop_reason, truncated.usage.output_tokens) == ("max_tokens", 7)


async def test_tokens_are_counted_without_a_step(opened: Open) -> None:
    async with opened("one", step_limit=1) as episode, client(episode) as messages:
        counted = await messages.count_tokens(model="m", messages=[user("Hi")], system="Be terse.")
        got = await messages.create(model="m", max_tokens=9, messages=[user("Hi")], system="Be terse.")
    assert counted.input_tokens == got.usage.input_tokens
    assert episode.recording.answers == 1


async def test_requests_of_claude_code_are_accepted(opened: Open, with_tools: HFTokenizer) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    more = {
        "metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 1024}, "temperature": 1,
        "tool_choice": {"type": "auto"}, "context_management": {"edits": []}, "output_config": {"effort": "high"},
        "new_field": True,
    }  # fmt: skip
    messages_sent = [
        user("Hi"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}]},
    ]
    messages_sent += [{"role": "user", "content": [result("1", [image])]}]
    tools = [TOOL, {"type": "web_search_20250305", "name": "web_search"}]
    async with opened("one", tokenizer=with_tools) as episode, client(episode) as messages:
        await messages.create(model="m", max_tokens=2048, messages=messages_sent, tools=tools, extra_body=more)
    assert "(an image, which this model cannot read)" in episode.engine.read[0]
    assert "web_search" not in episode.engine.read[0]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tool_choice": {"type": "any"}}, "tool_choice.type"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
        ({"messages": [user("x"), {"role": "assistant", "content": "y"}]}, "messages"),
        ({"extra_body": {"mcp_servers": [{}]}}, "mcp_servers"),
        ({"extra_body": {"tools": [1]}}, "tools: must be a list of objects"),
        ({"extra_body": {"tool_choice": "auto"}}, "tool_choice: must be an object"),
        ({"extra_body": {"thinking": "enabled"}}, "thinking: must be an object"),
        ({"extra_body": {"output_config": "low"}}, "output_config: must be an object"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
    ],
)
async def test_unsupported_field_is_refused_by_name(opened: Open, fields: dict[str, Any], named: str) -> None:
    async with opened("never") as episode, client(episode) as messages:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await messages.create(**{"model": "m", "max_tokens": 9, "messages": [user("x")], **fields})
    error = caught.value.body["error"]  # type: ignore[index,call-overload]
    assert (error["type"], error["message"].startswith(named)) == ("invalid_request_error", True)
    assert not episode.recording.segments


async def test_full_window_error_has_the_code_of_the_clients(opened: Open) -> None:
    async with opened("one", context_tokens=200) as episode, client(episode) as messages:
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
            await messages.create(model="m", max_tokens=9, messages=[user("long " * 300)])
        assert episode.recording.refused == "prompt_too_long"


async def test_key_may_be_in_either_header(opened: Open) -> None:
    request: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [user("Hi")]}
    async with opened("one", "two") as episode:
        for option in ("api_key", "auth_token"):
            keys: Any = {"api_key": None, option: episode.endpoint.api_key}
            async with AsyncAnthropic(base_url=episode.gateway.url, max_retries=0, **keys) as opened_client:
                await opened_client.messages.create(**request)
                assert [model.id async for model in opened_client.models.list()] == ["policy"]
        async with AsyncAnthropic(base_url=episode.gateway.url, max_retries=0, api_key="other") as opened_client:
            with pytest.raises(anthropic.AuthenticationError):
                await opened_client.messages.create(**request)
    assert episode.recording.answers == 2


async def test_lost_engine_ends_a_stream_with_an_error(opened: Open) -> None:
    async with opened(EngineError("gone"), kind=BlockedScript, keep_alive=0.01) as episode, client(episode) as messages:
        assert isinstance(episode.engine, BlockedScript)
        stream = await messages.create(model="m", max_tokens=9, messages=[user("Hi")], stream=True)
        episode.engine.go.set()
        with pytest.raises(anthropic.APIStatusError, match="gone"):
            [event async for event in stream]
