"""Chat completions against a server that answers, and refuses, as OpenAI-compatible servers do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from swerl_agent.episode import ChatCompletions, Completion, ContextFull, EndpointError, EngineError, RetryPolicy

from tests.chat_server import MODEL, Body, ChatServer, Reply, error, max_answer_tokens, serving

KEY = "sk-very-secret-0123456789"
HI = [{"role": "user", "content": "Hi"}]
QUICK = RetryPolicy(first_delay=0.01)


class Replies:
    """Gives each reply once, then always the last."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)

    def __call__(self, body: Body) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@asynccontextmanager
async def opened(server: ChatServer, **options: Any) -> AsyncIterator[ChatCompletions]:
    async with serving(server), aiohttp.ClientSession() as http:
        usual = {"base_url": server.url, "session": http, "model": MODEL, "retry_policy": QUICK}
        yield ChatCompletions(**usual | options)


async def complete(chat: ChatCompletions) -> Completion:
    return await chat.complete(HI, max_tokens=9, temperature=0.7, routing_key="g1")


async def check(server: ChatServer, **options: Any) -> None:
    async with opened(server, **options) as chat:
        await chat.check(max_tokens=100, temperature=0.5)


async def test_request_and_answer() -> None:
    server = ChatServer(Replies("Hello"))
    async with opened(server, top_p=0.9, top_k=20) as chat:
        completion = await complete(chat)
    assert server.requests == [
        {"model": MODEL, "messages": HI, "max_tokens": 9, "temperature": 0.7, "top_p": 0.9, "top_k": 20}
    ]
    assert (completion.text, completion.content, completion.truncated) == ("Hello", "Hello", False)
    assert completion.usage == {"requests": 1, "prompt_tokens": 8, "cached_tokens": 1, "completion_tokens": 10}


async def test_neutral_parameters_are_not_sent() -> None:
    server = ChatServer(Replies("Hello"))
    async with opened(server) as chat:
        await complete(chat)
    assert not {"top_p", "top_k", "stream", "tools"} & server.requests[0].keys()


async def test_reasoning_and_calls_are_part_of_the_history() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    broken = {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": "{"}}
    message = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call, broken]}
    async with opened(ChatServer(Replies(message))) as chat:
        completion = await complete(chat)
    assert completion.content == ""
    assert completion.text == (
        '<think>hm</think>\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
        '\n<tool_call>\n{"name": "bash", "arguments": "{"}\n</tool_call>'
    )


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
async def test_request_to_a_busy_server_is_retried(status: int) -> None:
    async with opened(ChatServer(Replies(error(status, "busy"), "Hello"))) as chat:
        assert (await complete(chat)).text == "Hello"


async def test_retry_waits_for_retry_after() -> None:
    async with opened(ChatServer(Replies(error(429, "slow down", **{"Retry-After": "1"}), "Hello"))) as chat:
        started = time.monotonic()
        assert (await complete(chat)).text == "Hello"
    assert time.monotonic() - started >= 1.0


async def test_server_that_stays_busy_is_an_engine_error() -> None:
    server = ChatServer(Replies(error(429, "quota")))
    async with opened(server, retry_policy=replace(QUICK, retries=2)) as chat:
        with pytest.raises(
            EngineError, match=r"/v1/chat/completions gave no answer after 2 retries: .*HTTP 429: .*quota"
        ):
            await complete(chat)
    assert len(server.requests) == 3


async def test_pause_of_hours_is_not_waited_for() -> None:
    server = ChatServer(Replies(error(429, "quota", **{"Retry-After": "7200"})))
    async with opened(server) as chat:
        with pytest.raises(EngineError, match="requests a wait of 7200 s"):
            await complete(chat)
    assert len(server.requests) == 1


async def test_request_times_out() -> None:
    over = asyncio.Event()

    class Slow(ChatServer):
        async def complete(self, request: web.Request) -> web.Response:
            await over.wait()
            return error(500, "too late")

    async with opened(Slow(Replies("")), timeout=0.2, retry_policy=RetryPolicy(retries=0)) as chat:
        with pytest.raises(EngineError, match="gave no answer after 0 retries: TimeoutError"):
            await complete(chat)
        over.set()


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "Too many tokens.", "context_length_exceeded"),
        (400, "This model's maximum context length is 100 tokens. However, you requested 200 tokens", None),
        (400, "'max_tokens' is too large: 64. This model's maximum context length is 100 tokens", None),
        (400, "The input (61709 tokens) is longer than the model's context length (40960 tokens).", None),
        (400, "Requested token count exceeds the model's maximum context length of 100 tokens.", None),
        (400, "the request exceeds the available context size, try increasing it", None),
        (400, "prompt is too long: 200001 tokens > 200000 maximum", None),
        (400, "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000", None),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", None),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.", None),
    ],
)
async def test_full_context_window_has_its_own_error(status: int, message: str, code: str | None) -> None:
    async with opened(ChatServer(Replies(error(status, message, code)))) as chat:
        with pytest.raises(ContextFull, match="does not fit into the window of the model at http:"):
            await complete(chat)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (error(404, f"The model `{MODEL}` does not exist."), r"does not serve model 'policy-7b': .*change --model, or"),
        (
            error(404, "Not Found"),
            r"/v1 has no /chat/completions: .*usually .../v1, with --engine, or model.end",
        ),
        (error(403, "No access"), r"requires an API key: HTTP 403: .*give a valid one with --api-key-env, or model"),
        (error(400, "Unsupported value: 'temperature'"), r"refused the request: HTTP 400: .*'temperature'"),
        (error(307, "", Location="https://new/v1"), r"moved to https://new/v1: give the new address with --engine"),
    ],
)
async def test_refusal_names_the_fix_and_is_not_retried(reply: web.Response, message: str) -> None:
    server = ChatServer(Replies(reply))
    async with opened(server) as chat:
        with pytest.raises(EndpointError, match=message):
            await complete(chat)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        web.Response(text="<html>proxy</html>"),
        web.json_response([]),
        web.json_response({"choices": []}),
        web.json_response({"choices": [{"message": "Hello"}]}),
        web.json_response({"choices": [{"message": {"content": "Hello"}}], "usage": "many"}),
    ],
)
async def test_garbage_is_an_engine_error(reply: web.Response) -> None:
    async with opened(ChatServer(Replies(reply))) as chat:
        with pytest.raises(EngineError, match="returned an answer that is not a chat completion: '"):
            await complete(chat)


async def test_failure_inside_a_successful_response_is_a_failure() -> None:
    failed = web.json_response({"error": {"code": 502, "message": "provider is down"}})
    async with opened(ChatServer(Replies(failed, "Hello"))) as chat:
        assert (await complete(chat)).text == "Hello"


async def test_key_is_sent_and_appears_in_no_message() -> None:
    async with opened(ChatServer(Replies("Hello"), key=KEY), api_key=KEY) as chat:
        assert (await complete(chat)).text == "Hello"
    async with opened(ChatServer(Replies("Hello"), key="another"), api_key=KEY) as chat:
        with pytest.raises(EndpointError, match=r"refuses the API key: HTTP 401: .*provided: \*\*\*") as caught:
            await complete(chat)
        assert KEY not in f"{caught.value}{caught.value!r}{chat!r}"


async def test_check_sends_the_requests_of_episodes() -> None:
    server = ChatServer(Replies("OK"))
    async with opened(server) as chat:
        await chat.check(max_tokens=100, temperature=0.5, tools=[{"type": "function"}])
    (request,) = server.requests
    assert (request["max_tokens"], request["temperature"], request["tools"]) == (100, 0.5, [{"type": "function"}])


async def test_unknown_model_is_found_by_the_servers_list() -> None:
    server = ChatServer(Replies("OK"), models=[f"model-{number}" for number in range(12)])
    with pytest.raises(EndpointError, match=r"'policy-7b' but model-0, .*, and 2 more; choose one .*--model"):
        await check(server)
    assert server.requests == []


@pytest.mark.parametrize("models", [None, [], [MODEL], [f"models/{MODEL}"]])
async def test_unlisted_model_is_requested_too(models: list[str] | None) -> None:
    server = ChatServer(Replies("OK"), models=models)
    await check(server)
    assert [request["model"] for request in server.requests] == [MODEL]


async def test_missing_key_is_found_by_the_check() -> None:
    with pytest.raises(EndpointError, match="requires an API key: HTTP 401"):
        await check(ChatServer(Replies("OK"), key=KEY))


async def test_answers_longer_than_the_window_are_found_by_the_check() -> None:
    with pytest.raises(EndpointError, match=r"no room for an answer of 100 tokens: .*; lower --max-tokens, or"):
        await check(ChatServer(Replies("OK"), window=64))


async def test_other_name_of_the_longest_answer_is_found_by_the_check() -> None:
    def reply(body: Body) -> Reply:
        if "max_tokens" in body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return "OK"

    server = ChatServer(reply)
    async with opened(server) as chat:
        await chat.check(max_tokens=100, temperature=0.5)
        await complete(chat)
    assert [max_answer_tokens(body) for body in server.requests] == [100, 100, 9]
    assert "max_tokens" not in server.requests[-1]


async def test_dead_server_is_an_engine_error() -> None:
    async with aiohttp.ClientSession() as http:
        chat = ChatCompletions("http://127.0.0.1:9/v1", http, model=MODEL, retry_policy=replace(QUICK, retries=1))
        with pytest.raises(EngineError, match=r"http://127.0.0.1:9/v1 gave no answer after 1 retries: ClientConnector"):
            await chat.check(max_tokens=1, temperature=0)
