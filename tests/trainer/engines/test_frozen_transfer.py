"""An engine that freezes while it receives weights: it alone is replaced, within the limit of a call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import torch
from swerl_trainer.engines.client import ANSWER_SECONDS, EngineClient
from swerl_trainer.engines.errors import EngineCallError, EngineLost
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.links import ProcessGroupLink
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.engines.weights import WeightTransferFailed
from swerl_trainer.weight_bucket import WeightBucket, WeightPart, WeightSample

from .conftest import PROMPT, InProcessTrainer, log_probs

CONTROL = 6.0  # seconds of a call that moves no weights, and of silence during others
KILL_SECONDS = 20.0  # for an engine to end, and for the next transfer, on a busy machine
TOLERANCE = 1e-4
RECEIVE = "update_weights_from_distributed"
BUCKET = WeightBucket(("w",), ("bfloat16",), ((2,),), 4)


class Sender:
    """A trainer of one bucket, whose broadcast ends when every engine has received it, or the group is aborted."""

    def __init__(self) -> None:
        self.received = asyncio.Event()
        self.disconnected = 0

    async def weight_parts(self, *_: object, **__: object) -> list[WeightPart]:
        return [WeightPart(0, (BUCKET,))]

    async def weight_endpoint(self, rank: int = 0) -> tuple[str, int]:
        return "127.0.0.1", 1

    async def connect_engines(self, *_: object, **__: object) -> None: ...

    async def prepare_bucket(self, part: WeightPart) -> None: ...

    async def send_bucket(self, *_: object, **__: object) -> None:
        await self.received.wait()

    async def disconnect_engines(self, *_: object) -> None:
        assert self.received.is_set(), "the rank is still in its broadcast"
        self.disconnected += 1

    async def weight_sample(self, *_: object, **__: object) -> WeightSample:
        return WeightSample((), ())


class Engine(EngineClient):
    """An engine that records its calls; `receives` is what happens in the transfer of a bucket."""

    def __init__(self, url: str, receives: Callable[[], Any]) -> None:
        super().__init__(url, None)  # type: ignore[arg-type]
        self.receives = receives
        self.calls: list[str] = []

    async def _post(self, call: str, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        self.calls.append(call)
        if call == RECEIVE:
            await self.receives()
        return {}


async def refuse() -> None:
    raise EngineCallError("partially updated")


async def lose() -> None:
    raise EngineLost("no answer")


async def wait_for_the_others() -> None:
    await asyncio.Event().wait()


async def failed_by(*receives: Callable[[], Any]) -> tuple[list[bool], list[list[str]]]:
    """Which engines a transfer names, and the calls that each gets once the named ones have ended."""
    sender, engines = Sender(), [Engine(f"http://{n}", each) for n, each in enumerate(receives)]
    link = ProcessGroupLink(sender, engines, "gloo")  # type: ignore[arg-type]
    with pytest.raises(WeightTransferFailed) as failure:
        async with asyncio.timeout(20):
            await link.send(1)
    assert not sender.disconnected
    before = [len(engine.calls) for engine in engines]
    sender.received.set()
    await link.abandon()
    assert sender.disconnected == 1
    named = [engine in failure.value.engines for engine in engines]
    return named, [engine.calls[count:] for engine, count in zip(engines, before, strict=True)]


@pytest.mark.parametrize("others", [refuse, wait_for_the_others])
async def test_engines_that_wait_for_a_lost_one_are_kept(others: Callable[[], Any]) -> None:
    named, calls = await failed_by(others, lose, others)
    assert named == [False, True, False]
    assert calls[0] == ["destroy_weights_update_group", "end_weight_update"], "ready for the next transfer"


async def nothing() -> None: ...


async def test_engine_that_refuses_is_named_when_none_is_lost() -> None:
    named, calls = await failed_by(refuse, nothing)
    assert named == [True, False]
    assert calls[1] == ["destroy_weights_update_group", "end_weight_update"]


@dataclass
class TwoEngines:
    """A pool of two real engines that serve the source's weights, and its watcher."""

    pool: EnginePool
    handles: list[LocalEngine]
    source: InProcessTrainer
    http: aiohttp.ClientSession
    lock: asyncio.Lock

    def processes(self, number: int) -> list[int]:
        """Of an engine: its server, then those that the server has started."""
        server = self.handles[number]._server
        assert server is not None
        group = server.process.pid
        return [group, *(int(each.name) for each in Path("/proc").glob("[0-9]*") if child(int(each.name), group))]

    async def distance(self, client: EngineClient) -> float:
        """Largest difference between the engine's log-probabilities and transformers' on the source's model."""
        settings = {"max_new_tokens": 8, "temperature": 1.0, "ignore_eos": True}
        body = {"input_ids": PROMPT, "return_logprob": True, "sampling_params": settings}
        async with self.http.post(f"{client.url}/generate", json=body) as response:
            result = await response.json()
        actual = [entry[0] for entry in result["meta_info"]["output_token_logprobs"]]
        expected = log_probs(self.source.model, PROMPT, result["output_ids"])
        return max(abs(a - b) for a, b in zip(actual, expected, strict=True))


def child(pid: int, group: int) -> bool:
    with contextlib.suppress(OSError):
        return pid != group and os.getpgid(pid) == group
    return False


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_engines(
    make_model: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TwoEngines]:
    logs, source = tmp_path_factory.mktemp("logs"), InProcessTrainer(make_model(1))
    settings = ServerSettings(model=str(make_model(0)), dtype="float32", gpus=0, context_tokens=1024)
    handles = [LocalEngine(settings, logs / f"engine-{number}.log", "127.0.0.1") for number in range(2)]
    async with aiohttp.ClientSession() as http:
        router = Router.on("127.0.0.1", http, logs / "router.log")
        pool, lock = EnginePool(handles, router, http, control_timeout=CONTROL), asyncio.Lock()
        try:
            await pool.start()
            await pool.attach(source, 0, lock)
            watcher = asyncio.create_task(pool.watch())
            yield TwoEngines(pool, handles, source, http, lock)
            watcher.cancel()
        finally:
            await pool.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("part", ["server", "scheduler"])
async def test_engine_that_freezes_in_a_bucket_is_replaced_and_the_other_goes_on(
    two_engines: TwoEngines, part: str
) -> None:
    pool = two_engines.pool
    async with asyncio.timeout(120):
        while len(pool.clients()) < 2:  # noqa: ASYNC110 - the engine that an earlier run of this test froze
            await asyncio.sleep(0.2)
    replaced = pool.replaced
    frozen, other = pool.clients()
    processes = two_engines.processes(0)
    chosen = processes if part == "server" else [pid for pid in processes if "scheduler" in title(pid)]
    assert chosen

    def freeze() -> None:
        for pid in chosen:
            os.kill(pid, signal.SIGSTOP)

    perturb(two_engines.source.model)
    two_engines.source.before_bucket = freeze
    began = time.monotonic()
    async with two_engines.lock:
        await pool.update_weights(replaced + 1)
    assert time.monotonic() - began < CONTROL + ANSWER_SECONDS + KILL_SECONDS
    assert pool.clients() == [other] and frozen is not other
    assert (await other.info())["weight_version"] == str(replaced + 1)
    assert await two_engines.distance(other) <= TOLERANCE
    async with asyncio.timeout(120):
        while pool.replaced == replaced:  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.2)
    assert [await two_engines.distance(client) <= TOLERANCE for client in pool.clients()] == [True, True]


def title(pid: int) -> str:
    """What a process calls itself."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def perturb(model: torch.nn.Module) -> None:
    """Change every weight by about a tenth of its size."""
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(1 + 0.1 * torch.randn_like(value))
