"""A real SGLang server on CPU: it serves the trainer's weights, over updates, deaths and router restarts."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import aiohttp
import pytest
import torch
from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.pool import WATCH_SECONDS
from swerl_trainer.engines.weights import CudaIpcLink, ProcessGroupLink

if TYPE_CHECKING:
    from .conftest import RoutedEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOLERANCE = 1e-4
UPDATE_SECONDS = 20  # longer than the router needs to give up an engine that fails its health checks


def perturb(model: torch.nn.Module) -> None:
    """Change every weight by about a tenth of its size."""
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(1 + 0.1 * torch.randn_like(value))


async def routed(routed_engine: RoutedEngine) -> bool:
    """Whether the router answers and knows a healthy engine."""
    try:
        return bool(await routed_engine.pool.router.healthy())
    except aiohttp.ClientError:
        return False


async def test_engine_serves_the_trainers_weights_from_the_start(routed_engine: RoutedEngine) -> None:
    assert await routed_engine.distance() <= TOLERANCE


async def test_update_gives_new_weights_under_a_new_version(routed_engine: RoutedEngine) -> None:
    perturb(routed_engine.source.model)
    assert await routed_engine.distance() > TOLERANCE
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(1)
    result = await routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert result["meta_info"]["weight_version"] == "1"
    assert await routed_engine.distance() <= TOLERANCE


async def test_running_request_continues_with_the_new_weights(routed_engine: RoutedEngine) -> None:
    running = asyncio.create_task(routed_engine.generate(max_new_tokens=2000, temperature=1.0, ignore_eos=True))
    await asyncio.sleep(1.0)
    perturb(routed_engine.source.model)
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(2)
    spans = (await running)["meta_info"]["weight_versions"]
    assert [span["version"] for span in spans] == ["1", "2"]
    assert spans[-1]["end"] == 2000


async def test_request_during_a_long_update_waits_for_its_end(routed_engine: RoutedEngine) -> None:
    client = routed_engine.pool._clients()[0]
    async with routed_engine.trainer_lock:
        await client.pause("retract")
        first = asyncio.create_task(routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True))
        await asyncio.sleep(UPDATE_SECONDS)
        second = asyncio.create_task(routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True))
        await asyncio.sleep(1)
        assert not first.done()
        assert not second.done()
        await client.resume()
    for request in (first, second):
        assert (await request)["meta_info"]["weight_version"] == "2"


async def test_killed_router_restarts_with_its_engines(routed_engine: RoutedEngine) -> None:
    process = routed_engine.pool.router._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    await asyncio.sleep(WATCH_SECONDS)
    async with asyncio.timeout(60):
        while not await routed(routed_engine):  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.2)
    assert await routed_engine.distance() <= TOLERANCE


async def test_engine_that_hangs_is_replaced_with_the_present_weights(routed_engine: RoutedEngine) -> None:
    server = routed_engine.handle._server
    assert server is not None
    assert await EngineClient(server.url, routed_engine.http).generates(60)
    os.killpg(server.process.pid, signal.SIGSTOP)
    async with asyncio.timeout(300):
        while not routed_engine.pool.replaced:
            assert not routed_engine.watcher.done()
            await asyncio.sleep(0.5)
    result = await routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert result["meta_info"]["weight_version"] == "2"
    assert await routed_engine.distance() <= TOLERANCE
    perturb(routed_engine.source.model)
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(3)
    assert await routed_engine.distance() <= TOLERANCE


async def test_engine_on_the_trainers_gpu_reads_its_memory(routed_engine: RoutedEngine) -> None:
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")  # handles that any process of the machine can open
    try:
        perturb(routed_engine.source.model)
        engine = routed_engine.handle._server
        assert engine is not None
        client = EngineClient(engine.url, routed_engine.http, locations=await routed_engine.source.locations())
        async with routed_engine.trainer_lock:
            await CudaIpcLink(routed_engine.source, [client]).send(4)
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    result = await routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert result["meta_info"]["weight_version"] == "4"
    assert await routed_engine.distance() <= TOLERANCE


async def test_kept_cache_leaves_running_requests_as_they_are(routed_engine: RoutedEngine) -> None:
    running = asyncio.create_task(routed_engine.generate(max_new_tokens=2000, temperature=1.0, ignore_eos=True))
    await asyncio.sleep(1.0)
    perturb(routed_engine.source.model)
    engine = routed_engine.handle._server
    assert engine is not None
    link = ProcessGroupLink(
        routed_engine.source, [EngineClient(engine.url, routed_engine.http)], "gloo", keep_cache=True
    )
    async with routed_engine.trainer_lock:
        await link.send(5)
        await link.close()
    meta = (await running)["meta_info"]
    assert [span["version"] for span in meta["weight_versions"]] == ["4", "5"]
    assert meta["num_retractions"] == 0
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(6)
    assert await routed_engine.distance() <= TOLERANCE
