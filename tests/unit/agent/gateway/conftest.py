"""Gateways that listen, before an engine whose answers a test writes down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from swerl_agent.episode import Generation, HFTokenizer
from swerl_agent.gateway import Endpoint, Gateway, Recording
from swerl_agent.gateway.streaming import KEEP_ALIVE

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script
from tests.unit.agent.episode.conftest import PLAIN, TOOLS, make_tokenizer

# As TOOLS, with the calls of earlier answers shown.
CALLS = TOOLS.replace(
    "{{ message.content }}{% if loop.first",
    "{{ message.content }}{% for call in message.tool_calls or [] %}\n<tool_call>\n{{ call.function | tojson }}\n"
    "</tool_call>{% endfor %}{% if loop.first",
)
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run it.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


class CharacterEncoder:
    """Encodes every character by itself: other tokens than the text encodes to, as a model may sample them."""

    def __init__(self, tokenizer: HFTokenizer) -> None:
        self._inner = tokenizer
        self.turn_end_id, self.decode = tokenizer.turn_end_id, tokenizer.decode

    def encode(self, text: str) -> list[int]:
        return [index for character in text for index in self._inner.encode(character)]


class BlockedScript(Script):
    """Answers after `go` is set."""

    def __init__(self, tokenizer: Any, answers: Sequence[str | Exception]) -> None:
        super().__init__(tokenizer, answers)
        self.requested, self.go = asyncio.Event(), asyncio.Event()

    async def generate(self, input_ids: Sequence[int], **sampling: Any) -> Generation:
        self.requested.set()
        await self.go.wait()
        return await super().generate(input_ids, **sampling)


@dataclass
class GatewayEpisode:
    """An episode at a gateway, and a client of it."""

    client: Any  # AsyncOpenAI with arguments that its types exclude
    endpoint: Endpoint
    recording: Recording
    engine: Script
    tokenizer: HFTokenizer
    gateway: Gateway

    async def complete(self, *messages: Any, **options: Any) -> Any:
        """The completion of a conversation."""
        return await self.client.chat.completions.create(model="any", messages=list(messages), **options)


Open = Callable[..., AbstractAsyncContextManager[GatewayEpisode]]


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("plain"), PLAIN))


@pytest.fixture(scope="session")
def with_tools(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("tools"), CALLS))


@pytest.fixture
def opened(plain: HFTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    @asynccontextmanager
    async def opened(
        *answers: str | Exception,
        tokenizer: HFTokenizer = plain,
        template: str | None = None,
        kind: type[Script] = Script,
        temperature: float = 0.7,
        keep_alive: float = KEEP_ALIVE,
        **limits: Any,
    ) -> AsyncIterator[GatewayEpisode]:
        episode_tokenizer = HFTokenizer(make_tokenizer(tmp_path, template)) if template else tokenizer
        engine = kind(CharacterEncoder(episode_tokenizer), answers)  # type: ignore[arg-type]
        spec = agent_spec(**limits)
        async with Gateway(engine, episode_tokenizer, keep_alive=keep_alive) as gateway:
            with gateway.episode(spec, routing_key="g/t", temperature=temperature) as (endpoint, recording):
                async with AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0) as client:
                    yield GatewayEpisode(client, endpoint, recording, engine, episode_tokenizer, gateway)

    return opened


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def message_of(completion: Any) -> dict[str, Any]:
    """The answer as a client keeps it."""
    return dict(completion.choices[0].message.model_dump())


def check(recording: Recording, read: int) -> None:
    """What holds for every tree: each sampled token trained once, contexts as they were read."""
    steps = []
    for segment in recording.segments:
        assert len(segment.tokens) == len(segment.loss_mask) == len(segment.logprobs)
        inside = [0] * len(segment.tokens)
        for step, start, end in segment.answers:
            inside[start:end] = [1] * (end - start)
            steps.append(step)
        assert inside == segment.loss_mask
        assert all((logprob != 0) == bool(mask) for logprob, mask in zip(segment.logprobs, inside, strict=True))
    assert sorted(steps) == list(range(read)) == list(range(recording.answers))
