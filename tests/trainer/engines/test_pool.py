"""A real SGLang server on CPU: it serves the trainer's weights, over updates, deaths and router restarts."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import torch
from swerl_trainer.engines.client import EngineClient, EngineLoad, engine_loads, fullest_cache
from swerl_trainer.engines.links import CudaIpcLink, ProcessGroupLink, weight_link
from swerl_trainer.engines.pool import WATCH_SECONDS

if TYPE_CHECKING:
    from .conftest import InProcessTrainer, RoutedEngine

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


async def test_cache_is_used_while_a_request_runs(routed_engine: RoutedEngine) -> None:
    running = asyncio.create_task(routed_engine.generate(max_new_tokens=2000, temperature=1.0, ignore_eos=True))
    loads = list[EngineLoad]()
    while not running.done():
        loads += await engine_loads(routed_engine.pool.clients())
        await asyncio.sleep(0.1)
    assert (fullest_cache(loads) or 0.0) > 0.01 and max(load.running for load in loads) == 1, loads
    assert {load.waiting for load in loads} <= {0, 1}
    (idle,) = await engine_loads(routed_engine.pool.clients())
    assert idle.running == idle.waiting == 0 and idle.cache < 0.01
    assert await engine_loads([EngineClient("http://127.0.0.1:9", routed_engine.http)]) == []


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
    client = routed_engine.pool.clients()[0]
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
    for weights in Path(routed_engine.handle.settings.model).glob("*.safetensors"):
        weights.unlink()  # another engine gets all from the trainer
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


async def test_weights_with_which_an_engine_started_are_not_sent_again(routed_engine: RoutedEngine) -> None:
    engine = routed_engine.handle._server
    assert engine is not None
    client = EngineClient(engine.url, routed_engine.http)
    link = ProcessGroupLink(Unsent(routed_engine.source), [client], "gloo")  # type: ignore[arg-type]
    assert await link.adopt(40)
    assert (await client.info())["weight_version"] == "40"
    result = await routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert [span["version"] for span in result["meta_info"]["weight_versions"]] == ["40"]
    perturb(routed_engine.source.model)
    assert not await link.adopt(41)
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(4)


class Unsent:
    """A trainer of which only sums may be taken."""

    def __init__(self, source: InProcessTrainer) -> None:
        self.weight_sample = source.weight_sample


async def test_engine_with_damaged_weights_is_replaced(routed_engine: RoutedEngine) -> None:
    before = routed_engine.pool.replaced
    perturb(routed_engine.source.model)
    routed_engine.source.damages_next = True  # the last bit of the final norm, which version 5 compares
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(5)
    async with asyncio.timeout(300):
        while routed_engine.pool.replaced == before:
            assert not routed_engine.watcher.done()
            await asyncio.sleep(0.5)
    assert routed_engine.pool.check.mismatches == 1
    result = await routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    assert result["meta_info"]["weight_version"] == "5"
    assert await routed_engine.distance() <= TOLERANCE


async def test_engine_reads_the_model_from_a_folder(routed_engine: RoutedEngine, tmp_path: Path) -> None:
    engine = routed_engine.handle._server
    assert engine is not None
    link = weight_link(
        routed_engine.source, [EngineClient(engine.url, routed_engine.http)], "disk", tmp_path / "weights"
    )
    for version in (50, 51):
        perturb(routed_engine.source.model)
        async with routed_engine.trainer_lock:
            await link.send(version)
        result = await routed_engine.generate(max_new_tokens=4, temperature=0.0, ignore_eos=True)
        assert result["meta_info"]["weight_version"] == str(version)
        assert await routed_engine.distance() <= TOLERANCE
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(5)


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
        await link.send(6)
        await link.close()
    meta = (await running)["meta_info"]
    assert [span["version"] for span in meta["weight_versions"]] == ["5", "6"]
    assert meta["num_retractions"] == 0
    async with routed_engine.trainer_lock:
        await routed_engine.pool.update_weights(7)
    assert await routed_engine.distance() <= TOLERANCE
