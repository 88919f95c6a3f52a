"""The OpenAI client's Responses API against the gateway."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from swerl_agent.episode import EngineError, HFTokenizer

from .conftest import BlockedScript, Open, check, user

CALL = '<tool_call>\n{"name": "shell", "arguments": {"command": "ls"}}\n</tool_call>'
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "shell",
    "description": "Run it.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
PATCH: dict[str, Any] = {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": {"type": "text"}}


def items_of(response: Any) -> list[dict[str, Any]]:
    """The items of an answer as a client keeps them."""
    return [item.model_dump(exclude_none=True) for item in response.output]


def outputs(response: Any, text: str = "kit.py") -> list[dict[str, Any]]:
    calls = [item.call_id for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call, "output": text} for call in calls]


async def test_response_has_text_status_and_usage(opened: Open) -> None:
    async with opened("Hello.", "word " * 50) as episode:
        got = await episode.client.responses.create(model="m", input="Hi", instructions="Be terse.")
        truncated = await episode.client.responses.create(model="m", input="Hi", max_output_tokens=7)
    first = episode.recording.segments[0]
    assert (got.output_text, got.status, got.usage.input_tokens) == ("Hello.", "completed", first.prompt_length)
    assert got.usage.total_tokens == len(first.tokens)
    assert (truncated.status, truncated.incomplete_details.reason, truncated.usage.output_tokens) == (
        "incomplete",
        "max_output_tokens",
        7,
    )
    assert "system\nBe terse." in episode.engine.read[0]


@pytest.mark.parametrize("how_continued", ["items", "stream", "stored"])
async def test_conversation_with_tools_is_one_segment(
    opened: Open, with_tools: HFTokenizer, how_continued: str
) -> None:
    answers = [f"<think>hm</think>So:\n{CALL}\n{CALL}", f"<think>ah</think>{CALL}", "Done."]
    items: list[Any] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]}]
    more: dict[str, Any] = {"model": "m", "instructions": "Be terse.", "tools": [TOOL]}
    kinds = []
    async with opened(*answers, tokenizer=with_tools) as episode:
        for _ in answers:
            if how_continued == "stream":
                async with episode.client.responses.stream(input=items, store=False, **more) as streamed:
                    got = await streamed.get_final_response()
            else:
                got = await episode.client.responses.create(input=items, store=how_continued == "stored", **more)
            kinds.append([item.type for item in got.output])
            if how_continued == "stored":
                items, more["previous_response_id"] = outputs(got), got.id
            else:
                items += [*items_of(got), *outputs(got)]
    calls = [["reasoning", "message", "function_call", "function_call"], ["reasoning", "function_call"], ["message"]]
    assert kinds == calls
    assert (got.output_text, len(episode.recording.segments)) == ("Done.", 1)
    assert episode.engine.read[2].count("kit.py") == 3
    check(episode.recording, 3)


async def test_results_between_the_calls_of_one_answer_change_nothing(opened: Open, with_tools: HFTokenizer) -> None:
    async with opened(f"{CALL}\n{CALL}", "Done.", tokenizer=with_tools) as episode:
        got = await episode.client.responses.create(model="m", input="Hi", tools=[TOOL])
        (first_call, second_call), (first, second) = items_of(got), outputs(got)
        items = [user("Hi"), first_call, first, second_call, second]
        await episode.client.responses.create(model="m", input=items, tools=[TOOL])
    assert len(episode.recording.segments) == 1
    check(episode.recording, 2)


async def test_redacted_thinking_counts_as_reasoning(opened: Open) -> None:
    async with opened("<think>hm</think>one", "two", "three") as episode:
        request: dict[str, Any] = {"model": "m", "include": ["reasoning.encrypted_content"], "store": False}
        got = await episode.client.responses.create(input="Hi", **request)
        reasoning, message = items_of(got)
        del reasoning["content"]
        await episode.client.responses.create(input=[user("Hi"), reasoning, message, user("And?")], **request)
        await episode.client.responses.create(input=[user("Hey"), reasoning, message, user("And?")], **request)
    assert [len(segment.answers) for segment in episode.recording.segments] == [2, 1]
    assert "<think>hm</think>one" in episode.engine.read[2]


async def test_freeform_tool_takes_text(opened: Open, with_tools: HFTokenizer) -> None:
    patch = json.dumps({"name": "apply_patch", "arguments": {"input": "*** Begin Patch"}})
    async with opened(f"<tool_call>{patch}</tool_call>", "Done.", tokenizer=with_tools) as episode:
        async with episode.client.responses.stream(model="m", input="Hi", tools=[PATCH]) as streamed:
            got = await streamed.get_final_response()
        (item,) = items_of(got)
        result = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "ok"}
        await episode.client.responses.create(model="m", input=[user("Hi"), item, result], tools=[PATCH])
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", "*** Begin Patch")
    assert len(episode.recording.segments) == 1


async def test_requests_of_codex_are_accepted(opened: Open, with_tools: HFTokenizer) -> None:
    async with opened("one", tokenizer=with_tools) as episode:
        stream = await episode.client.responses.create(
            model="m",
            instructions="You are Codex.",
            input=[{"role": "developer", "content": [{"type": "input_text", "text": "Rules."}]}, user("Hi")],
            tools=[TOOL, {"type": "web_search", "external_web_access": False}],
            tool_choice="auto",
            parallel_tool_calls=True,
            reasoning={"effort": "medium", "summary": "auto"},
            store=False,
            stream=True,
            include=["reasoning.encrypted_content"],
            prompt_cache_key="k",
            text={"verbosity": "low"},
            extra_body={"client_metadata": {"a": "b"}, "new_field": 1},
        )
        events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert events[-1].response.output_text == "one"
    assert "web_search" not in episode.engine.read[0]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text": {"format": {"type": "json_object"}}}, "text.format.type"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": []}, "messages"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"extra_body": {"tools": [1]}}, "tools"),
        ({"extra_body": {"text": "json"}}, "text"),
        ({"extra_body": {"text": {"format": "json"}}}, "text.format"),
        ({"extra_body": {"reasoning": "low"}}, "reasoning"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "?"}]}, "input[0].encrypted_content"),
    ],
)
async def test_unsupported_field_is_refused_by_name(opened: Open, fields: dict[str, Any], param: str) -> None:
    async with opened("never") as episode:
        with pytest.raises(openai.BadRequestError) as caught:
            await episode.client.responses.create(**{"model": "m", "input": "Hi", **fields})
    assert caught.value.param == param
    assert not episode.recording.segments


async def test_lost_engine_ends_a_stream_with_an_error(opened: Open) -> None:
    async with opened(EngineError("gone"), kind=BlockedScript, keep_alive=0.01) as episode:
        assert isinstance(episode.engine, BlockedScript)
        stream = await episode.client.responses.create(model="m", input="Hi", stream=True)
        episode.engine.go.set()
        with pytest.raises(openai.APIError, match="gone"):
            [event async for event in stream]
