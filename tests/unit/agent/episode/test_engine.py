"""The SGLang engine against a server that answers as SGLang does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from swerl_agent.episode import EngineError, Generation, RetryPolicy, SGLangEngine

Answer = Callable[[dict[str, Any]], web.Response]
TWO_RETRIES = RetryPolicy(retries=2, first_delay=0.01)


def result(ids: list[int], finish: dict[str, Any], spans: list[dict[str, Any]] | None = None) -> web.Response:
    meta: dict[str, Any] = {
        "id": "r",
        "finish_reason": finish,
        "weight_version": "3",
        "output_token_logprobs": [[-0.1 * index, index, None] for index in ids],
    }
    if spans is not None:
        meta["weight_versions"] = spans
    return web.json_response({"text": "", "output_ids": ids, "meta_info": meta})


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[tuple[SGLangEngine, list[dict[str, Any]]]]:
    requests: list[dict[str, Any]] = []
    remaining = list(answers)

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        requests.append({"body": body, "key": request.headers.get("X-SMG-Routing-Key")})
        return (remaining.pop(0) if len(remaining) > 1 else remaining[0])(body)

    app = web.Application()
    app.router.add_post("/generate", generate)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession() as session:
            yield SGLangEngine(f"http://127.0.0.1:{port}/", session, retry_policy=TWO_RETRIES), requests
    finally:
        await runner.cleanup()


async def request_generation(engine: SGLangEngine, max_new_tokens: int = 8) -> Generation:
    return await engine.generate(
        [5, 6], max_new_tokens=max_new_tokens, temperature=0.7, stop_token_ids=[2], routing_key="g1"
    )


async def test_request_and_answer() -> None:
    spans = [{"version": "3", "start": 0, "end": 2}, {"version": "4", "start": 2, "end": 3}]
    async with serving(lambda _: result([9, 8, 2], {"type": "stop", "matched": 2}, spans)) as (engine, requests):
        generation = await request_generation(engine)
    assert generation == Generation([9, 8, 2], [-0.9, -0.8, -0.2], "stop", [("3", 0, 2), ("4", 2, 3)])
    body = requests[0]["body"]
    assert (body["sampling_params"]["top_p"], body["sampling_params"]["top_k"]) == (1.0, -1)
    assert requests[0]["key"] == "g1"
    assert (body["input_ids"], body["return_logprob"]) == ([5, 6], True)
    sampling = body["sampling_params"]
    assert (sampling["max_new_tokens"], sampling["temperature"], sampling["stop_token_ids"]) == (8, 0.7, [2])
    assert sampling["skip_special_tokens"] is False


async def test_aborted_answer_is_continued_from_its_tokens() -> None:
    abort = {"type": "abort", "message": "Aborted", "status_code": None}
    async with serving(lambda _: result([9, 8], abort), lambda _: result([7, 2], {"type": "stop", "matched": 2})) as (
        engine,
        requests,
    ):
        generation = await request_generation(engine)
    assert generation.output_ids == [9, 8, 7, 2]
    assert len(generation.logprobs) == 4
    assert generation.weight_versions == [("3", 0, 2), ("3", 2, 4)]
    assert requests[1]["body"]["input_ids"] == [5, 6, 9, 8]
    assert requests[1]["body"]["sampling_params"]["max_new_tokens"] == 6
    assert requests[0]["body"]["rid"] != requests[1]["body"]["rid"]


async def test_server_request_metadata_is_summed() -> None:
    def reply(**meta: Any) -> Answer:
        def answer(_: dict[str, Any]) -> web.Response:
            ids = [9, 2]
            logprobs = [[-0.5, index, None] for index in ids]
            return web.json_response({"output_ids": ids, "meta_info": {"output_token_logprobs": logprobs, **meta}})

        return answer

    first = reply(finish_reason={"type": "abort"}, prompt_tokens=2, cached_tokens=1, e2e_latency=0.5)
    second = reply(finish_reason={"type": "stop"}, prompt_tokens=4, cached_tokens=3, e2e_latency=0.25, queue_time=0.125)
    async with serving(first, second) as (engine, _):
        usage = (await request_generation(engine)).usage
    assert usage == {"requests": 2, "prompt_tokens": 6, "cached_tokens": 4, "latency": 0.75, "queue": 0.125}


async def test_seed_is_passed_on_and_without_one_each_request_has_its_own() -> None:
    async with serving(lambda _: result([2], {"type": "stop"})) as (engine, requests):
        for seed in (7, 7, None, None):
            await engine.generate(
                [5], max_new_tokens=1, temperature=1.0, stop_token_ids=[2], routing_key="g", seed=seed
            )
    seeds = [request["body"]["sampling_params"]["sampling_seed"] for request in requests]
    assert seeds[:2] == [7, 7]
    assert len(set(seeds)) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_transient_failure_is_retried(status: int) -> None:
    async with serving(lambda _: web.Response(status=status, text="busy"), lambda _: result([2], {"type": "stop"})) as (
        engine,
        requests,
    ):
        assert (await request_generation(engine)).output_ids == [2]
    assert len(requests) == 2


async def test_refused_request_is_not_tried_again() -> None:
    async with serving(lambda _: web.json_response({"error": {"message": "too long"}}, status=400)) as (
        engine,
        requests,
    ):
        with pytest.raises(EngineError, match=r"HTTP 400.*too long"):
            await request_generation(engine)
    assert len(requests) == 1


async def test_dead_server_is_an_engine_error() -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(EngineError, match="gave no answer after 2 retries"):
            await request_generation(SGLangEngine("http://127.0.0.1:9", session, retry_policy=TWO_RETRIES))


async def test_logprobs_that_do_not_cover_the_tokens_are_refused() -> None:
    def short(_: dict[str, Any]) -> web.Response:
        meta = {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[-1.0, 9, None]]}
        return web.json_response({"output_ids": [9, 8], "meta_info": meta})

    async with serving(short) as (engine, _):
        with pytest.raises(EngineError, match="cover 1 tokens, not the 2"):
            await request_generation(engine)


async def test_endpoint_that_stays_busy_is_an_engine_error() -> None:
    async with serving(lambda _: web.Response(status=429, body=b"too many requests \xff")) as (engine, requests):
        with pytest.raises(EngineError, match=r"gave no answer after 2 retries: .*HTTP 429: too many requests"):
            await request_generation(engine)
    assert len(requests) == 3


@pytest.mark.parametrize(
    "answer",
    [
        b'["hello"]',
        b"<html>\n<title>Sign in</title>",
        b"\xff\xfe\x00",
        b"",
        b"null",
        b'{"error": {"message": "no such model"}}',
        b'{"meta_info": {}}',
        b'{"meta_info": {"finish_reason": "stop", "output_token_logprobs": []}}',
        b'{"meta_info": {"finish_reason": {"type": "stop"}, "output_token_logprobs": [1]}}',
        b'{"meta_info": {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[-1.0]]}}',
        b'{"meta_info": {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[null, 9, null]]}}',
        b'{"meta_info": {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[-1.0, "a", null]]}}',
        b'{"meta_info": {"finish_reason": {"type": "stop"}, "weight_versions": [{"version": "1"}]}}',
    ],
)
async def test_garbage_is_an_engine_error(answer: bytes) -> None:
    async with serving(lambda _: web.Response(body=answer, content_type="text/html")) as (engine, requests):
        with pytest.raises(EngineError, match=r"/generate answered something that is no SGLang result: '") as caught:
            await request_generation(engine)
    assert len(requests) == 1
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("logprob", ["NaN", "-Infinity"])
async def test_log_prob_that_is_no_number_is_refused(logprob: str) -> None:
    meta = f'{{"finish_reason": {{"type": "stop"}}, "output_token_logprobs": [[{logprob}, 9, null]]}}'
    async with serving(lambda _: web.Response(text=f'{{"meta_info": {meta}}}')) as (engine, _):
        with pytest.raises(EngineError, match="a log-prob that is not a number"):
            await request_generation(engine)
