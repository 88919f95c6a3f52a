"""The OpenAI client against the gateway."""

from __future__ import annotations

import json

import openai
import pytest
from swerl_agent.episode import HFTokenizer

from .conftest import TOOL, Open, message_of, system, user

CALL = 'So:\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'


async def test_answer_has_its_text_reason_usage_and_weights(opened: Open) -> None:
    async with opened("Hello.") as episode:
        got = await episode.complete(system("Be terse."), user("Hi"))
    (segment,) = episode.recording.segments
    assert (got.choices[0].message.content, got.choices[0].finish_reason) == ("Hello.", "stop")
    assert got.usage.prompt_tokens == segment.prompt_length
    assert got.usage.total_tokens == len(segment.tokens)
    assert got.system_fingerprint == "weights-7"
    assert episode.engine.keys == {"g/t"}


async def test_stream_gives_the_same_answer(opened: Open) -> None:
    text = "word " * 100
    async with opened(text) as episode:
        stream = await episode.complete(user("Hi"), stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == len(text) + 1


async def test_tool_calls_are_answered_as_calls_and_streamed(opened: Open, with_tools: HFTokenizer) -> None:
    async with opened(CALL, CALL, tokenizer=with_tools) as episode:
        got = await episode.complete(user("List."), tools=[TOOL])
        stream = await episode.complete(user("List."), tools=[TOOL], stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
    message = got.choices[0].message
    assert (message.content, got.choices[0].finish_reason) == ("So:", "tool_calls")
    assert json.loads(message.tool_calls[0].function.arguments) == {"command": "ls"}
    (streamed,) = [call for delta in deltas for call in delta.tool_calls or []]
    assert streamed.function.arguments == message.tool_calls[0].function.arguments
    assert json.dumps(TOOL["function"]["name"]) in episode.engine.read[0]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{broken</tool_call>",
        CALL + "<tool_call>{broken</tool_call>",
        '<tool_call>{"name": "python", "arguments": {}}</tool_call>',
        f"<think>perhaps {CALL}</think>No.",
    ],
)
async def test_malformed_call_stays_content(opened: Open, with_tools: HFTokenizer, text: str) -> None:
    async with opened(text, tokenizer=with_tools) as episode:
        got = await episode.complete(user("List."), tools=[TOOL])
    assert (got.choices[0].message.content, got.choices[0].finish_reason) == (text, "stop")
    assert got.choices[0].message.tool_calls is None


async def test_without_tools_a_call_is_text(opened: Open, with_tools: HFTokenizer) -> None:
    async with opened(CALL, CALL, tokenizer=with_tools) as episode:
        assert (await episode.complete(user("List."))).choices[0].message.content == CALL
        assert (await episode.complete(user("List."), tools=[TOOL], tool_choice="none")).choices[
            0
        ].message.content == CALL
    assert "Run it." not in episode.engine.read[1]


async def test_arguments_in_tags_have_the_types_of_the_tool(opened: Open, with_tools: HFTokenizer) -> None:
    tool = {
        "type": "function",
        "function": {"name": "wait", "parameters": {"properties": {"seconds": {"type": "integer"}, "why": {}}}},
    }
    text = (
        "<tool_call>\n<function=wait>\n<parameter=seconds>\n3\n</parameter>\n<parameter=why>\n1\n</parameter>\n"
        "</function>\n</tool_call>"
    )
    async with opened(text, tokenizer=with_tools) as episode:
        got = await episode.complete(user("Wait."), tools=[tool])
    assert json.loads(got.choices[0].message.tool_calls[0].function.arguments) == {"seconds": 3, "why": "1"}
    assert got.choices[0].message.content is None


async def test_stop_string_ends_the_answer_after_its_last_token(opened: Open) -> None:
    async with opened("yes END and more", "no") as episode:
        got = await episode.complete(user("Hi"), stop=["END", "never"])
        await episode.complete(user("Hi"), message_of(got), user("And?"))
    assert (got.choices[0].message.content, got.choices[0].finish_reason) == ("yes ", "stop")
    (segment,) = episode.recording.segments
    _, start, end = segment.answers[0]
    assert episode.tokenizer.decode(segment.tokens[start:end]) == "yes END"
    assert segment.weight_versions[0] == ("7", start, end)


async def test_log_probs_are_given_for_each_token_of_the_text(opened: Open) -> None:
    async with opened("ab") as episode:
        got = await episode.complete(user("Hi"), logprobs=True)
    assert [(piece.token, piece.logprob) for piece in got.choices[0].logprobs.content] == [("a", -0.25), ("b", -0.25)]


@pytest.mark.parametrize(
    ("options", "most"), [({}, 50), ({"max_tokens": 7}, 7), ({"max_completion_tokens": 9, "max_tokens": 60}, 9)]
)
async def test_answer_is_as_long_as_client_and_episode_allow(opened: Open, options: dict[str, int], most: int) -> None:
    async with opened("word " * 100, max_tokens_per_turn=50) as episode:
        got = await episode.complete(user("Hi"), **options)
    assert (got.choices[0].finish_reason, got.usage.completion_tokens) == ("length", most)


async def test_gateways_own_url_takes_the_key_as_api_key(opened: Open) -> None:
    async with opened("Hello.") as episode:
        client = episode.client.with_options(base_url=f"{episode.gateway.url}/v1")
        assert [model.id async for model in client.models.list()] == ["policy"]
        await client.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hi"}])
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="other").models.list()
    assert episode.recording.answers == 1


JSON = {"Content-Type": "application/json"}
IMAGE = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "data:"}}]


@pytest.mark.parametrize(
    ("options", "param", "message"),
    [
        ({"n": 2}, "n", "1"),
        ({"top_p": 0}, "top_p", "0"),
        ({"extra_body": {"repetition_penalty": 1.1}}, "repetition_penalty", "1"),
        ({"extra_body": {"chat_template_kwargs": {"tokenize": True}}}, "chat_template_kwargs", "not an option"),
        ({"tool_choice": "required"}, "tool_choice", "none"),
        ({"response_format": {"type": "json_object"}}, "response_format.type", "text"),
        ({"temperature": 9}, "temperature", "2"),
        ({"extra_body": {"best_of": 2}}, "best_of", "not supported"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [user("x"), {"role": "assistant", "content": "y"}]}, "messages", "last"),
        ({"messages": [{"role": "function", "content": "y"}]}, "messages[0].role", "tool"),
        ({"messages": [user("x"), {"role": "user", "content": IMAGE}]}, "messages[1].content", "no images"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0]", "name"),
        ({"tools": [TOOL]}, "tools", "shows the tools"),
    ],
)
async def test_unsupported_field_is_refused_by_name(
    opened: Open, options: dict[str, object], param: str, message: str
) -> None:
    async with opened("never") as episode:
        with pytest.raises(openai.BadRequestError) as caught:
            await episode.client.chat.completions.create(**{"model": "m", "messages": [user("x")], **options})
    assert (caught.value.param, caught.value.type) == (param, "invalid_request_error")
    assert message in caught.value.message
    assert not episode.recording.segments


async def test_invalid_json_and_unknown_paths_are_refused_in_the_same_format(opened: Open) -> None:
    async with opened() as episode:
        http = episode.client._client
        for path, status in (("chat/completions", 400), ("embeddings", 404)):
            response = await http.post(f"{episode.endpoint.base_url}/{path}", content=b"{", headers=JSON)
            assert (response.status_code, set(response.json()["error"])) == (
                status,
                {"message", "type", "param", "code"},
            )


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages", "messages/count_tokens"])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_form_of_a_web_page_is_refused(opened: Open, path: str, kind: str) -> None:
    async with opened("never") as episode:
        http, url = episode.client._client, f"{episode.endpoint.base_url}/{path}"
        response = await http.post(url, content=b"{}", headers={"Content-Type": kind} if kind else {})
    assert (response.status_code, episode.recording.answers) == (415, 0)
    assert "Content-Type: application/json" in response.json()["error"]["message"]
