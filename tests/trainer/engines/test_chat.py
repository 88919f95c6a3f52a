"""Chat completions of a real SGLang, at the engine and through the router."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.episode import ChatCompletions, ContextFull, EndpointError, check_served

if TYPE_CHECKING:
    from .conftest import RoutedEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONVERSATION = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is <|im_end|>?"}]


async def addresses(routed_engine: RoutedEngine) -> tuple[str, list[str]]:
    """The model's name at the server, and the servers' base addresses."""
    server = routed_engine.handle._server
    assert server is not None
    async with routed_engine.http.get(f"{server.url}/v1/models") as response:
        name = (await response.json())["data"][0]["id"]
    return name, [f"{url}/v1" for url in (server.url, routed_engine.pool.router.url)]


async def test_engine_answers_chats_and_counts_tokens(routed_engine: RoutedEngine) -> None:
    name, urls = await addresses(routed_engine)
    for url in urls:
        chat = ChatCompletions(url, routed_engine.http, model=name, top_p=0.9, top_k=20)
        await chat.check(max_tokens=8, temperature=1.0)
        completion = await chat.complete(CONVERSATION, max_tokens=8, temperature=1.0, routing_key="episode")
        assert completion.usage["prompt_tokens"] > 0 and 0 < completion.usage["completion_tokens"] <= 8
        assert completion.truncated == (completion.usage["completion_tokens"] == 8)


async def test_answer_says_how_long_its_request_waited(routed_engine: RoutedEngine) -> None:
    answer = await routed_engine.generate(max_new_tokens=8, temperature=1.0, ignore_eos=True)
    meta = answer["meta_info"]
    assert 0 < meta["queue_time"] < meta["first_token_latency"] < meta["e2e_latency"]


async def test_engine_counts_its_requests(routed_engine: RoutedEngine) -> None:
    server = routed_engine.handle._server
    assert server is not None
    async with routed_engine.http.get(f"{server.url}/metrics") as response:
        text = await response.text()
    assert response.status == 200
    for metric in ("num_requests_total", "generation_tokens_total", "queue_time_seconds_count"):
        assert re.search(rf"^sglang:{metric}{{[^}}]*}} [1-9]", text, re.MULTILINE), f"no {metric} in {text[:4000]}"


async def test_full_context_window_has_its_own_error(routed_engine: RoutedEngine) -> None:
    name, urls = await addresses(routed_engine)
    for url in urls:
        chat = ChatCompletions(url, routed_engine.http, model=name)
        with pytest.raises(ContextFull, match="longer than the model's context length"):
            await chat.complete([{"role": "user", "content": "x" * 9000}], max_tokens=8, temperature=1.0)


async def test_unknown_model_is_refused(routed_engine: RoutedEngine) -> None:
    engine = (await addresses(routed_engine))[1][0]
    with pytest.raises(EndpointError, match="does not serve model 'another' but "):
        await ChatCompletions(engine, routed_engine.http, model="another").check(max_tokens=8, temperature=1.0)


async def test_engine_reports_its_model_without_a_name_in_the_request(routed_engine: RoutedEngine) -> None:
    name, urls = await addresses(routed_engine)
    for url in urls:
        base = url.removesuffix("/v1")
        await check_served(base, routed_engine.http, model=f"org/{Path(name).name}", tokenizer=name)
        with pytest.raises(EndpointError, match=f"serves .*{Path(name).name}.*, not another"):
            await check_served(base, routed_engine.http, model="another", tokenizer=name)
