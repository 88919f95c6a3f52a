"""Removing engines from the router's list, over its HTTP interface; lines of its log."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from swerl_kube.logs import LogSettings
from swerl_trainer.engines import router as router_module
from swerl_trainer.engines.errors import EngineCallError, EngineStartError
from swerl_trainer.engines.router import Router, RouterSettings

ENGINE = "http://engine"


@dataclass
class Workers:
    """The list of engines of a router that refuses deletions for a while."""

    urls: set[str] = field(default_factory=set)
    refusals: int = 0  # deletions that it still refuses

    async def add(self, request: web.Request) -> web.Response:
        self.urls.add((await request.json())["url"])
        return web.json_response({"worker_id": "1"}, status=202)

    async def show(self, _: web.Request) -> web.Response:
        return web.json_response({"workers": [{"url": url, "is_healthy": True} for url in self.urls]})

    async def delete(self, _: web.Request) -> web.Response:
        if self.refusals:
            self.refusals -= 1
            return web.Response(status=503)
        self.urls.clear()
        return web.Response(status=202)


@asynccontextmanager
async def router_of(workers: Workers) -> AsyncIterator[Router]:
    """A router that has ENGINE."""
    application = web.Application()
    application.router.add_post("/workers", workers.add)
    application.router.add_get("/workers", workers.show)
    application.router.add_delete("/workers/{id}", workers.delete)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with aiohttp.ClientSession() as http:
            router = Router(RouterSettings("127.0.0.1", runner.addresses[0][1], 0), http, Path("router.log"))
            await router.add(ENGINE)
            yield router
    finally:
        await runner.cleanup()


async def test_failed_removal_is_repeated() -> None:
    workers = Workers(refusals=2)
    async with router_of(workers) as router:
        with pytest.raises(EngineCallError, match="kept engine http://engine"):
            await router.remove(ENGINE)
        await router.finish_removals()
        assert workers.urls == {ENGINE}
        await router.finish_removals()
        assert not workers.urls


async def test_engine_that_comes_back_is_not_removed_later() -> None:
    workers = Workers(refusals=1)
    async with router_of(workers) as router:
        with pytest.raises(EngineCallError):
            await router.remove(ENGINE)
        await router.add(ENGINE)
        await router.finish_removals()
        assert workers.urls == {ENGINE}


PROGRAM = """
import json, sys
print(json.dumps({"level": "WARN", "fields": {"message": "no worker", "policy": "x"}, "target": "smg"}), flush=True)
sys.exit("panicked")
"""


async def test_lines_of_the_router_have_the_ids_of_its_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(router_module, "router_command", lambda settings: [sys.executable, "-c", PROGRAM])
    log = LogSettings("json", {"namespace": "n", "job": "demo", "attempt": 1})
    async with aiohttp.ClientSession() as http:
        router = Router.on("127.0.0.1", http, tmp_path / "router.log", log_settings=log)
        with pytest.raises(EngineStartError, match="panicked"):
            await router.start()
    lines = [json.loads(line) for line in (tmp_path / "router.log").read_text().splitlines()]
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("warning", "smg", "no worker"),
        ("info", "text", "panicked"),
    ]
    assert all(line.items() >= log.ids.items() for line in lines) and lines[0]["policy"] == "x"


async def test_text_of_the_router_is_written_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(router_module, "router_command", lambda settings: [sys.executable, "-c", PROGRAM])
    async with aiohttp.ClientSession() as http:
        with pytest.raises(EngineStartError, match="panicked"):
            await Router.on("127.0.0.1", http, tmp_path / "router.log").start()
    assert (tmp_path / "router.log").read_text().endswith("\npanicked\n")
