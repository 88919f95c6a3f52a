"""How an episode at the gateway ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import openai
import pytest
from swerl_agent.episode import EngineError, Generation

from tests.scripted_engine import Script

from .conftest import BlockedScript, Open, check, message_of, user


async def test_there_are_as_many_answers_as_steps(opened: Open) -> None:
    async with opened("one", "two", step_limit=1) as episode:
        await episode.complete(user("Hi"))
        with pytest.raises(openai.NotFoundError) as caught:
            await episode.complete(user("Hi"))
    assert (caught.value.code, episode.recording.refused) == ("max_steps", "max_steps")
    check(episode.recording, 1)


async def test_request_beyond_the_window_is_refused_and_a_shorter_one_accepted(opened: Open) -> None:
    async with opened("one", "two", context_tokens=200) as episode:
        with pytest.raises(openai.BadRequestError) as caught:
            await episode.complete(user("long " * 300))
        assert (caught.value.code, episode.recording.refused) == ("context_length_exceeded", "prompt_too_long")
        first = message_of(await episode.complete(user("short")))
        assert episode.recording.refused is None
        with pytest.raises(openai.BadRequestError, match="maximum context length is 200"):
            await episode.complete(user("short"), first, user("long " * 300))
        assert episode.recording.refused == "context_overflow"
    check(episode.recording, 1)


async def test_answer_gets_what_is_left_of_the_window(opened: Open) -> None:
    async with opened("word " * 100, context_tokens=100) as episode:
        got = await episode.complete(user("Hi"))
    assert got.choices[0].finish_reason == "length"
    assert got.usage.total_tokens == 100


async def test_episodes_time_ends_the_request_under_way(opened: Open) -> None:
    async with opened("late", kind=BlockedScript, episode_timeout_seconds=0.2) as episode:
        for _ in range(2):
            with pytest.raises(openai.NotFoundError) as caught:
                await episode.complete(user("Hi"))
            assert caught.value.code == "episode_timeout"
    assert episode.recording.refused == "episode_timeout"


async def test_lost_engine_is_reported_as_one(opened: Open) -> None:
    async with opened(EngineError("gone"), "never") as episode:
        for _ in range(2):
            with pytest.raises(openai.InternalServerError, match="gone") as caught:
                await episode.complete(user("Hi"))
            assert (caught.value.status_code, caught.value.code) == (503, "engine_lost")
        assert str(episode.recording.lost.result()) == "gone"


async def test_engine_that_serves_another_model_is_lost(opened: Open) -> None:
    class Another(Script):
        async def generate(self, input_ids: Sequence[int], **sampling: Any) -> Generation:
            generation = await super().generate(input_ids, **sampling)
            return replace(generation, output_ids=[index + 10**6 for index in generation.output_ids])

    async with opened("one", kind=Another) as episode:
        with pytest.raises(openai.InternalServerError, match="the tokenizer of the model that the engine serves"):
            await episode.complete(user("Hi"))
        assert episode.recording.lost.done()
    assert episode.recording.segments == []


async def test_closed_episode_refuses_running_and_new_requests(opened: Open) -> None:
    async with opened("late", kind=BlockedScript) as episode:
        assert isinstance(episode.engine, BlockedScript)
        running = asyncio.create_task(episode.complete(user("Hi")))
        await episode.engine.requested.wait()
        episode.recording.close()
        for request in (running, episode.complete(user("Hi"))):
            with pytest.raises(openai.NotFoundError):
                await request
        episode.engine.go.set()
    assert episode.recording.segments == []


async def test_endpoint_ends_with_its_episode(opened: Open) -> None:
    async with opened("one") as episode:
        episode.gateway._episodes.clear()
        with pytest.raises(openai.NotFoundError):
            await episode.complete(user("Hi"))
        episode.gateway._episodes[episode.endpoint.api_key] = episode.recording


@pytest.mark.parametrize("stream", [False, True])
async def test_disconnected_client_loses_no_result(opened: Open, stream: bool) -> None:
    async with opened("late", kind=BlockedScript) as episode:
        assert isinstance(episode.engine, BlockedScript)
        running = asyncio.create_task(episode.complete(user("Hi"), stream=stream))
        await episode.engine.requested.wait()
        running.cancel()
        await asyncio.wait({running})
        episode.engine.go.set()
        async with asyncio.timeout(5):
            while not episode.recording.answers:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)
    check(episode.recording, 1)


async def test_temperature_is_the_episodes_unless_the_request_names_one(opened: Open) -> None:
    temperatures: list[float] = []

    class TemperatureScript(BlockedScript):
        async def generate(self, input_ids, **sampling):  # type: ignore[no-untyped-def]
            temperatures.append(sampling["temperature"])
            self.go.set()
            return await super().generate(input_ids, **sampling)

    async with opened("one", "two", kind=TemperatureScript, temperature=0.7) as episode:
        await episode.complete(user("Hi"))
        await episode.complete(user("Hi"), temperature=0)
    assert temperatures == [0.7, 0]
