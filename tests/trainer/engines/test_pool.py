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
from swerl_trainer.engines.weights import CudaIpcLink

if TYPE_CHECKING:
    from .conftest import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOLERANCE = 1e-4
UPDATE_SECONDS = 20  # longer than the router needs to give up an engine that fails its health checks


def perturb(model: torch.nn.Module) -> None:
    """Change every weight by about a tenth of its size."""
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(1 + 0.1 * torch.randn_like(value))


async def routed(world: World) -> bool:
    """Whether the router answers and knows a healthy engine."""
    try:
        return bool(await world.pool.router.healthy())
    except aiohttp.ClientError:
        return False


async def test_engine_serves_the_trainers_weights_from_the_start(world: World) -> None:
    assert await world.distance() <= TOLERANCE


async def test_update_gives_new_weights_under_a_new_version(world: World) -> None:
    perturb(world.source.model)
    assert await world.distance() > TOLERANCE
    async with world.trainer_lock:
        await world.pool.update_weights(1)
    answer = await world.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert answer["meta_info"]["weight_version"] == "1"
    assert await world.distance() <= TOLERANCE


async def test_running_request_goes_on_with_the_new_weights(world: World) -> None:
    running = asyncio.create_task(world.generate(max_new_tokens=2000, temperature=1.0, ignore_eos=True))
    await asyncio.sleep(1.0)
    perturb(world.source.model)
    async with world.trainer_lock:
        await world.pool.update_weights(2)
    spans = (await running)["meta_info"]["weight_versions"]
    assert [span["version"] for span in spans] == ["1", "2"]
    assert spans[-1]["end"] == 2000


async def test_request_during_a_long_update_waits_for_its_end(world: World) -> None:
    engine = world.owner._server
    assert engine is not None
    client = EngineClient(engine.url, world.http)
    async with world.trainer_lock:
        await client.pause("retract")
        waiting = asyncio.create_task(world.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True))
        await asyncio.sleep(UPDATE_SECONDS)
        late = asyncio.create_task(world.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True))
        await asyncio.sleep(1)
        assert not waiting.done()
        assert not late.done()
        await client.resume()
    for request in (waiting, late):
        assert (await request)["meta_info"]["weight_version"] == "2"


async def test_killed_router_comes_back_with_its_engines(world: World) -> None:
    process = world.pool.router._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    await asyncio.sleep(WATCH_SECONDS)
    async with asyncio.timeout(60):
        while not await routed(world):  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.2)
    assert await world.distance() <= TOLERANCE


async def test_killed_engine_is_replaced_with_the_present_weights(world: World) -> None:
    server = world.owner._server
    assert server is not None
    os.kill(server.process.pid, signal.SIGKILL)
    async with asyncio.timeout(180):
        while not world.pool.replaced:
            assert not world.watcher.done()
            await asyncio.sleep(0.5)
    answer = await world.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert answer["meta_info"]["weight_version"] == "2"
    assert await world.distance() <= TOLERANCE
    perturb(world.source.model)
    async with world.trainer_lock:
        await world.pool.update_weights(3)
    assert await world.distance() <= TOLERANCE


async def test_engine_beside_the_trainer_reads_its_memory(world: World) -> None:
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")  # handles that any process of the machine can open
    try:
        perturb(world.source.model)
        engine = world.owner._server
        assert engine is not None
        client = EngineClient(engine.url, world.http, locations=await world.source.locations())
        async with world.trainer_lock:
            await CudaIpcLink(world.source, [client]).send(4)
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    answer = await world.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert answer["meta_info"]["weight_version"] == "4"
    assert await world.distance() <= TOLERANCE
