"""The API key of a real engine and a real router: both ask for it, and nothing shows it. The engine's log in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
from swerl_agent.episode import api_key_headers

from .conftest import KEY, PROMPT

if TYPE_CHECKING:
    from .conftest import RoutedEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("key", [None, "another"])
async def test_without_the_key_nothing_is_generated_or_changed(routed_engine: RoutedEngine, key: str | None) -> None:
    engine, router = routed_engine.handle._server, routed_engine.pool.router.url
    assert engine is not None
    calls = [f"{engine.url}/generate", f"{engine.url}/pause_generation", f"{router}/generate", f"{router}/workers"]
    async with aiohttp.ClientSession(headers=api_key_headers(key)) as http:
        for call in calls:
            async with http.post(call, json={"input_ids": PROMPT, "url": engine.url, "mode": "abort"}) as answer:
                assert answer.status == 401, f"{call}: {await answer.text()}"
        async with http.get(f"{router}/workers") as answer:
            assert answer.status == 401


async def test_key_is_in_no_log_and_no_command_line(routed_engine: RoutedEngine) -> None:
    engine = routed_engine.handle._server
    assert engine is not None
    logs = {path.name: path.read_text(errors="replace") for path in engine.log.parent.iterdir()}
    assert "server_args=" in logs[engine.log.name], "SGLang logs its settings"
    assert [name for name, text in logs.items() if KEY in text] == []
    assert not any(KEY.encode() in command for command in command_lines())


async def test_lines_of_the_engine_are_json_with_the_ids_of_the_job(routed_engine: RoutedEngine) -> None:
    engine = routed_engine.handle._server
    assert engine is not None
    text = engine.log.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert {(line["job"], line["engine"]) for line in lines} == {("demo", 0)}
    loggers = {line["logger"] for line in lines}
    assert {"sglang.srt.entrypoints.http_server", "uvicorn.error", "uvicorn.access"} <= loggers
    since = text[text.index("{") :].splitlines()
    assert not [line for line in since if line.startswith("[20") or "INFO:" in line], (
        "SGLang's and uvicorn's own format"
    )


def command_lines() -> Iterator[bytes]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield process.read_bytes()
        except OSError:  # it has ended meanwhile
            continue
