"""Streams: what the client receives while the model generates, and how they fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import openai
import pytest
from swerl_agent.episode import EngineError

from .conftest import BlockedScript, GatewayEpisode, Open, check, user


async def lines(episode: GatewayEpisode) -> AsyncIterator[str]:
    """The lines of a stream that are not empty, as they come; after the first comment the engine continues."""
    assert isinstance(episode.engine, BlockedScript)
    question = {"messages": [user("Hi")], "stream": True}
    async with episode.client._client.stream(
        "POST", f"{episode.endpoint.base_url}/chat/completions", json=question
    ) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line:
                yield line
            if line.startswith(":"):
                episode.engine.go.set()


async def test_comments_keep_a_stream_alive_until_its_answer_is_whole(opened: Open) -> None:
    async with opened("Hello.", kind=BlockedScript, keep_alive=0.01) as episode:
        received = [line async for line in lines(episode)]
    comments = [line for line in received if line == ": keep-alive"]
    assert comments and received[: len(comments)] == comments
    assert all(line.startswith("data: ") for line in received[len(comments) :])
    assert received[-1] == "data: [DONE]"
    check(episode.recording, 1)


async def test_clients_skip_the_comments(opened: Open) -> None:
    async with opened("Hello.", kind=BlockedScript, keep_alive=0.01) as episode:
        assert isinstance(episode.engine, BlockedScript)
        stream = await episode.complete(user("Hi"), stream=True)  # has begun before the engine has answered
        episode.engine.go.set()
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "Hello."


async def test_failure_before_the_first_comment_is_an_http_error(opened: Open) -> None:
    async with opened(EngineError("gone")) as episode:
        with pytest.raises(openai.InternalServerError, match="gone") as caught:
            await episode.complete(user("Hi"), stream=True)
    assert (caught.value.status_code, caught.value.code) == (503, "engine_lost")


@pytest.mark.parametrize(("failure", "code"), [(EngineError("gone"), "engine_lost"), (ValueError("gone"), "internal")])
async def test_failure_after_the_first_comment_is_the_last_event(opened: Open, failure: Exception, code: str) -> None:
    async with opened(failure, failure, kind=BlockedScript, keep_alive=0.01) as episode:
        received = [line async for line in lines(episode)]
    error = json.loads(received[-1].removeprefix("data: "))["error"]
    assert (error["code"], received[-2]) == (code, ": keep-alive")
    assert "gone" in error["message"]


async def test_failure_in_a_stream_is_one_to_clients_too(opened: Open) -> None:
    async with opened(EngineError("gone"), kind=BlockedScript, keep_alive=0.01) as episode:
        assert isinstance(episode.engine, BlockedScript)
        stream = await episode.complete(user("Hi"), stream=True)
        episode.engine.go.set()
        with pytest.raises(openai.APIError, match="gone") as caught:
            [chunk async for chunk in stream]
    assert caught.value.code == "engine_lost"


async def test_answer_is_recorded_when_the_client_leaves_its_stream(opened: Open) -> None:
    async with opened("late", kind=BlockedScript, keep_alive=0.01) as episode:
        assert isinstance(episode.engine, BlockedScript)
        stream = await episode.complete(user("Hi"), stream=True)
        await stream.close()
        await asyncio.sleep(0.05)  # comments that no client reads
        episode.engine.go.set()
        async with asyncio.timeout(5):
            while not episode.recording.answers:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)
    check(episode.recording, 1)
