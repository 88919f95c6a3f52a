"""A server that says that it serves another model than the one that is meant is refused; a silent one is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from swerl_agent.episode import EndpointError, check_served
from swerl_agent.episode.served import Served, disagreement, served

QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
INFO = {"model_path": "/models/Qwen3-8B", "served_model_name": "policy", "is_generation": True, **QWEN3}


@asynccontextmanager
async def serving(answers: Mapping[str, Any]) -> AsyncIterator[str]:
    """The address of a server with these answers by path."""

    async def answer(request: web.Request) -> web.Response:
        found = answers.get(request.path)
        return web.json_response(found, status=200 if found is not None else 404)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def accepted(url: str, http: aiohttp.ClientSession, model: str, tokenizer: Path) -> bool:
    try:
        await check_served(url, http, model=model, tokenizer=tokenizer)
    except EndpointError:
        return False
    return True


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({"/model_info": INFO}, Served(("policy", "/models/Qwen3-8B"), "qwen3", ("Qwen3ForCausalLM",))),
        ({"/get_model_info": {"model_path": "m"}}, Served(("m",))),
        ({"/v1/models": {"data": [{"id": "a"}, {"id": "b"}, {"id": "unknown"}]}}, Served(("a", "b"))),
        ({"/v1/models": ["x"], "/model_info": "x"}, Served()),
        ({"/v1/models": {"data": None}, "/model_info": {"model_path": None, "architectures": None}}, Served()),
        ({}, Served()),
    ],
)
async def test_retry_after_of_servers_is_read(answers: Mapping[str, Any], found: Served) -> None:
    async with serving(answers) as url, aiohttp.ClientSession() as http:
        assert await served(f"{url}/", http) == found


@pytest.mark.parametrize(
    "model", ["policy", "Policy", "/models/Qwen3-8B", "Qwen/Qwen3-8B", "qwen3-8b", "/mnt/other/Qwen3-8B/"]
)
async def test_name_or_path_of_the_served_model_is_accepted(model: str, tmp_path: Path) -> None:
    async with serving({"/model_info": INFO}) as url, aiohttp.ClientSession() as http:
        assert await accepted(url, http, model, tmp_path)


def test_model_in_the_hugging_face_cache_keeps_its_name() -> None:
    path = "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/9c925d64d72725edaf899c6cb9c377fd0709d9c5"
    assert disagreement(Served((path,)), "Qwen/Qwen3-8B", {}) is None
    assert disagreement(Served((path,)), "Qwen/Qwen3-4B", {}) is not None


async def test_another_model_is_refused_by_both_names(tmp_path: Path) -> None:
    async with serving({"/model_info": INFO}) as url, aiohttp.ClientSession() as http:
        with pytest.raises(EndpointError) as caught:
            await check_served(url, http, model="Qwen/Qwen3-4B", tokenizer=tmp_path)
    assert str(caught.value) == (
        f"{url} serves policy, /models/Qwen3-8B, not Qwen/Qwen3-4B; ask another server, or name the model with "
        "--model, or model.endpoint.model of a SweEval"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, "of kind qwen3 (policy, /models/Qwen3-8B)"),
        ({"architectures": ["Other"]}, "of kind Qwen3ForCausalLM (policy"),
        (QWEN3, None),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM", "Other"]}, None),
        ({}, None),
        (None, None),
    ],
)
async def test_without_a_name_the_kind_of_model_is_compared(
    config: dict[str, Any] | None, message: str | None, tmp_path: Path
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    async with serving({"/model_info": INFO}) as url, aiohttp.ClientSession() as http:
        if message is None:
            await check_served(url, http, model=None, tokenizer=tmp_path)
            return
        with pytest.raises(EndpointError) as caught:
            await check_served(url, http, model=None, tokenizer=tmp_path)
    assert message in str(caught.value) and str(caught.value).endswith(
        "--tokenizer, or model.endpoint.tokenizer of a SweEval"
    )


async def test_silent_or_absent_server_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[broken")
    async with serving({}) as url, aiohttp.ClientSession() as http:
        assert await accepted(url, http, "m", tmp_path)
    async with aiohttp.ClientSession() as http:
        assert await accepted(url, http, "m", tmp_path)
