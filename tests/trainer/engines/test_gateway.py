"""What an agent leaves at the gateway, scored again by the engine that sampled it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from swerl_agent.episode import HFTokenizer, SGLangEngine, TokenSegment
from swerl_agent.gateway import Gateway, Recording
from swerl_api import AgentSpec

if TYPE_CHECKING:
    from .conftest import RoutedEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOLERANCE = 1e-4
SPEC = AgentSpec(context_tokens=2048, max_tokens_per_turn=24)
ROUTING_KEY = "gateway"


async def scores(routed_engine: RoutedEngine, tokens: list[int]) -> list[float | None]:
    """The engine's log-prob of each token after those before it."""
    server = routed_engine.handle._server
    assert server is not None
    body = {
        "input_ids": tokens,
        "return_logprob": True,
        "logprob_start_len": 0,
        "sampling_params": {"max_new_tokens": 1, "temperature": 1.0},
    }
    async with routed_engine.http.post(f"{server.url}/generate", json=body) as response:
        assert response.status == 200, await response.text()
        parameter_mappings = (await response.json())["meta_info"]["input_token_logprobs"]
    assert [entry[1] for entry in parameter_mappings] == tokens
    return [entry[0] for entry in parameter_mappings]


async def converse(client: AsyncOpenAI) -> None:
    """Continue, retry, branch, drop messages, stream."""

    async def complete(*messages: Any, **options: Any) -> Any:
        return await client.chat.completions.create(model="policy", messages=list(messages), **options)

    def user(text: str) -> dict[str, str]:
        return {"role": "user", "content": text}

    start = [{"role": "system", "content": "Be brief."}, user("What is <|im_end|>?")]
    first = (await complete(*start)).choices[0].message.model_dump(exclude_none=True)
    repeated = (await complete(*start)).choices[0].message.model_dump(exclude_none=True)
    second = (await complete(*start, first, user("And then?"))).choices[0].message.model_dump(exclude_none=True)
    await complete(*start, first, user("And then?"), second, user("é 中 😀?"))
    await complete(*start, repeated, user("Otherwise?"))
    await complete(*start, first, user("Another way?"))
    await complete(*start, second, user("Forgotten."))
    async for _ in await complete(user("Alone."), stream=True):
        pass


async def recorded(routed_engine: RoutedEngine, tokenizer: HFTokenizer) -> Recording:
    engine = SGLangEngine(routed_engine.pool.router.url, routed_engine.http)
    async with Gateway(engine, tokenizer) as gateway:
        with gateway.episode(SPEC, routing_key=ROUTING_KEY, temperature=1.0) as (endpoint, recording):
            async with AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key) as client:
                await converse(client)
    return recording


async def test_recorded_log_probs_match_the_engines_scores(
    routed_engine: RoutedEngine, make_model: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    recording = await recorded(routed_engine, HFTokenizer(make_model(0)))
    assert recording.answers == 8
    worst, count = 0.0, 0
    for segment in recording.segments:
        rescored = await scores(routed_engine, segment.tokens)
        for mask, logprob, score in zip(segment.loss_mask, segment.logprobs, rescored, strict=True):
            if mask:
                assert score is not None
                worst, count = max(worst, abs(logprob - score)), count + 1
    assert count == sum(end - start for segment in recording.segments for _, start, end in segment.answers)
    assert count > 8
    print(f"largest distance {worst:.3g} over {count} tokens")  # read by tests/bench/agent_bench.py
    assert worst <= TOLERANCE
    check_versions(recording.segments)


def check_versions(segments: list[TokenSegment]) -> None:
    """Each sampled token is of weights that are named."""
    for segment in segments:
        named = [0] * len(segment.tokens)
        for version, start, end in segment.weight_versions:
            assert version == "0"
            named[start:end] = [1] * (end - start)
        assert named == segment.loss_mask
