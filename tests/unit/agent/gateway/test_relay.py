"""Agents that know nothing of tokens, before an OpenAI-compatible server: the gateway relays and records messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI
from swerl_agent.episode import ChatCompletions, Episode, EpisodeRequest, RetryPolicy
from swerl_agent.evaluation import MINI_SWE_AGENT, open_chat_agent
from swerl_agent.gateway import Recording, Relay

from tests.agent_spec import agent_spec
from tests.chat_server import MODEL, Body, ChatServer, Reply, error, max_answer_tokens, scripted, serving, turn
from tests.unit.agent.episode.conftest import Shell, repository

from .conftest import TOOL, message_of, system, user
from .test_mini_swe_agent import FIX, SUBMIT, TASK, block

__all__ = ["repository"]
KEY = "sk-very-secret-0123456789"
ONE_RETRY = RetryPolicy(retries=1, first_delay=0.01)
TEXT, TOOLS = "mini-swe-agent-2", "mini-swe-agent-2-tools"


@dataclass
class RelayedEpisode:
    """An episode at a relay, and a client of it."""

    client: Any  # AsyncOpenAI
    recording: Recording
    server: ChatServer

    async def complete(self, *messages: Any, **options: Any) -> Any:
        return await self.client.chat.completions.create(model="any", messages=list(messages), **options)


Open = Callable[..., AbstractAsyncContextManager[RelayedEpisode]]


@pytest.fixture(autouse=True)
def local_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def opened() -> Open:
    @asynccontextmanager
    async def opened(server: ChatServer, **limits: Any) -> AsyncIterator[RelayedEpisode]:
        spec = agent_spec(**limits)
        async with serving(server), aiohttp.ClientSession() as http:
            chat = ChatCompletions(server.url, http, model=MODEL, api_key=KEY, retry_policy=ONE_RETRY)
            async with Relay(chat) as relay:
                with relay.episode(spec, routing_key="g/t", temperature=0.7) as (endpoint, recording):
                    options = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "max_retries": 0}
                    async with AsyncOpenAI(**options) as client:
                        yield RelayedEpisode(client, recording, server)

    return opened


def call(*commands: str, thought: str = "hm") -> dict[str, Any]:
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        for number, arguments in enumerate(commands)
    ]
    return {"role": "assistant", "content": None, "reasoning_content": thought, "tool_calls": calls}


async def test_request_has_the_episodes_parameters(opened: Open) -> None:
    async with opened(ChatServer(scripted("one"), key=KEY), max_tokens_per_turn=50) as episode:
        answer = await episode.complete(system("Be."), user("Hi"), max_tokens=400, stop=["\n"])
        recording = episode.recording
    (request,) = episode.server.requests
    assert (request["model"], request["temperature"], max_answer_tokens(request), request["stop"]) == (
        MODEL,
        0.7,
        50,
        ["\n"],
    )
    assert answer.choices[0].message.content == "one"
    assert [message["content"] for message in recording.messages] == ["Be.", "Hi", "one"]
    assert (recording.answers, recording.segments, recording.usage["requests"]) == (1, [], 1)
    assert recording.seconds > 0


async def test_calls_keep_their_ids_and_what_clients_add_is_not_passed_on(opened: Open) -> None:
    server = ChatServer(scripted(call('{"command": "ls"}'), "done"))
    async with opened(server) as episode:
        first = await episode.complete(user("Hi"), tools=[TOOL])
        kept = {**message_of(first), "provider_specific_fields": {"a": 1}, "annotations": []}
        await episode.complete(
            user("Hi"), kept, {"role": "tool", "tool_call_id": "call_0", "content": "README"}, tools=[TOOL]
        )
    question, answered, result = server.requests[1]["messages"]
    assert question == {"role": "user", "content": "Hi"}
    assert answered == {key: value for key, value in call('{"command": "ls"}').items() if value is not None}
    assert result == {"role": "tool", "tool_call_id": "call_0", "content": "README"}
    assert server.requests[1]["tools"] == [TOOL]


async def test_stream_gives_the_same_answer(opened: Open) -> None:
    async with opened(ChatServer(scripted(call('{"command": "ls"}', "{")))) as episode:
        chunks = [
            chunk
            async for chunk in await episode.complete(
                user("Hi"), tools=[TOOL], stream=True, stream_options={"include_usage": True}
            )
        ]
    calls = [delta for chunk in chunks for choice in chunk.choices for delta in choice.delta.tool_calls or ()]
    assert [(delta.index, delta.id, delta.function.arguments) for delta in calls] == [
        (0, "call_0", '{"command": "ls"}'),
        (1, "call_1", "{"),
    ]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage.prompt_tokens > 0
    assert "stream" not in episode.server.requests[0]


async def test_full_context_window_is_reported_to_the_client(opened: Open) -> None:
    async with opened(ChatServer(scripted("one"), window=200), max_tokens_per_turn=50) as episode:
        with pytest.raises(openai.BadRequestError) as caught:
            await episode.complete(user("long " * 300))
        assert (caught.value.code, episode.recording.refused) == ("context_length_exceeded", "prompt_too_long")
        await episode.complete(user("Hi"))
        assert episode.recording.refused is None


async def test_context_tokens_count_as_the_server_does(opened: Open) -> None:
    async with opened(ChatServer(scripted("one")), context_tokens=300, max_tokens_per_turn=50) as episode:
        await episode.complete(user("Hi"))
        with pytest.raises(openai.BadRequestError, match=r"has about \d+ tokens, the window 300"):
            await episode.complete(user("Hi"), message_of(await episode.complete(user("Hi"))), user("long " * 300))
        assert episode.recording.refused == "context_overflow"


async def test_server_that_is_lost_ends_the_episode(opened: Open) -> None:
    async with opened(ChatServer(scripted(error(503, "down")))) as episode:
        with pytest.raises(openai.InternalServerError, match="the inference engine is lost"):
            await episode.complete(user("Hi"))
        assert "gave no answer after 1 retries" in str(episode.recording.lost.result())


async def solve(server: ChatServer, repository: Path, protocol: str = TOOLS, **limits: Any) -> Episode:
    """An attempt of mini-swe-agent."""
    spec = agent_spec(**limits, kind=MINI_SWE_AGENT, protocol=protocol)
    async with serving(server), aiohttp.ClientSession() as http:
        chat = ChatCompletions(server.url, http, model=MODEL, retry_policy=ONE_RETRY)
        async with open_chat_agent(spec, chat, None, temperature=0.3) as agent:
            request = EpisodeRequest(TASK, group="g", index=3, temperature=0.3, workdir=str(repository))
            return await agent.run_episode(request, Shell(repository))


async def test_mini_swe_agent_solves_a_task_with_tool_calls(repository: Path) -> None:
    def reply(body: Body) -> Reply:
        commands = ["cat kit.py", FIX, *SUBMIT]
        return call(f'{{"command": "{commands[turn(body)]}"}}')

    server = ChatServer(reply)
    episode = await solve(server, repository)
    assert (episode.exit_status, episode.patch_source, episode.turns) == ("submitted", "submission", 4)
    assert episode.patch and "-answer = 41\n+answer = 42" in episode.patch
    assert [message["role"] for message in episode.messages[:4]] == ["system", "user", "assistant", "tool"]
    assert '{"name": "bash", "arguments": {"command": "cat kit.py"}}' in episode.messages[2]["content"]
    assert episode.messages[2]["content"].startswith("<think>hm</think>")
    assert (episode.segments, episode.usage["requests"]) == ([], 4)
    check, *requests = server.requests
    assert check["tools"] and {body["temperature"] for body in requests} == {0.3}


async def test_mini_swe_agent_handles_malformed_calls_itself(repository: Path) -> None:
    episode = await solve(ChatServer(scripted(call("{"))), repository)
    assert (episode.exit_status, episode.format_errors) == ("repeated_format_errors", 3)
    assert not episode.infrastructure_error


async def test_mini_swe_agent_uses_code_blocks(repository: Path) -> None:
    episode = await solve(ChatServer(scripted(*map(block, [FIX, *SUBMIT]))), repository, TEXT)
    assert (episode.exit_status, episode.turns) == ("submitted", 3)


async def test_mini_swe_agent_ends_when_the_window_is_full(repository: Path) -> None:
    long = block("head -c 9000 /dev/zero | tr '\\0' x")
    episode = await solve(ChatServer(scripted(long), window=6000), repository, TEXT, max_tokens_per_turn=500)
    assert (episode.exit_status, episode.infrastructure_error) == ("context_overflow", False)
