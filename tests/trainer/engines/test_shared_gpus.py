"""Engines on the trainer's GPUs: where they are put, how they take turns, how weights reach them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from swerl_trainer.engines import pool as pools
from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.errors import EnginePoolError
from swerl_trainer.engines.handle import shared_gpu_locations
from swerl_trainer.engines.links import Backend, weight_link
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.engines.weights import WeightTransferFailed
from swerl_trainer.location import Location
from swerl_trainer.weight_bucket import WeightBucket, WeightSample

BUCKET = WeightBucket(("w",), ("bfloat16",), ((2,),), 4)


class RecordingEngine(EngineClient):
    """An engine that remembers its calls; one named in `refused_call` fails."""

    def __init__(self, url: str, locations: Sequence[Location] = (), refused_call: str = "") -> None:
        super().__init__(url, None, ranks=len(locations), locations=locations)  # type: ignore[arg-type]
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refused_call = refused_call

    async def _post(self, call: str, body: dict[str, Any], timeout: float = 0.0) -> dict[str, Any]:
        self.calls.append((call, body))
        if call == self.refused_call:
            raise EnginePoolError(f"{self.url}: {call}")
        return {}

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


class Ranks:
    """Four training ranks, two on each of two nodes, and two buckets."""

    def __init__(self) -> None:
        self.shared: list[int] = []
        self.released = 0

    async def locations(self) -> list[Location]:
        return [Location(node, device) for node in "ab" for device in range(2)]

    async def weight_buckets(self, max_bytes: int = 0) -> list[WeightBucket]:
        return [BUCKET, BUCKET]

    async def export_bucket(self, number: int) -> list[str]:
        self.shared.append(number)
        return [f"bucket {number} of rank {rank}" for rank in range(4)]

    async def release_bucket(self) -> None:
        self.released += 1

    async def weight_sample(self, version: int, *, engine_ranks: int, expert_ranks: int = 1) -> WeightSample:
        return WeightSample((), ())


def node(name: str, engines: int, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "Resources": {"engine": float(engines), "CPU": 8.0}}


def test_every_engine_has_gpus_of_its_own() -> None:
    locations = shared_gpu_locations(
        [node("b", 2), node("head", 0), node("a", 2), node("gone", 2, alive=False)], "engine", 4
    )
    assert [(gpus[0].node, [location.device for location in gpus]) for gpus in locations] == [
        ("a", [0, 1, 2, 3]),
        ("a", [4, 5, 6, 7]),
        ("b", [0, 1, 2, 3]),
        ("b", [4, 5, 6, 7]),
    ]


async def test_each_engine_rank_reads_from_the_rank_on_its_gpu() -> None:
    source = Ranks()
    engines = [RecordingEngine(name, [Location(name, 1), Location(name, 0)]) for name in ("b", "a")]
    await weight_link(source, engines, "ipc").send(7)  # type: ignore[arg-type]
    loads = [body for name, body in engines[0].calls if name == "update_weights_from_tensor"]
    assert [load["serialized_named_tensors"] for load in loads] == [
        ["bucket 0 of rank 3", "bucket 0 of rank 2"],
        ["bucket 1 of rank 3", "bucket 1 of rank 2"],
    ]
    assert [(load["weight_version"], load["flush_cache"]) for load in loads] == [("7", False), ("7", True)]
    assert engines[1].names == [
        "pause_generation",
        "begin_weight_update",
        "update_weights_from_tensor",
        "update_weights_from_tensor",
        "end_weight_update",
        "continue_generation",
    ]
    assert (source.shared, source.released) == ([0, 1], 1)


async def test_bucket_is_abandoned_when_an_engine_fails() -> None:
    source = Ranks()
    engines = [
        RecordingEngine("a", [Location("a", 0)]),
        RecordingEngine("b", [Location("b", 0)], refused_call="update_weights_from_tensor"),
    ]
    link = weight_link(source, engines, "ipc")  # type: ignore[arg-type]
    with pytest.raises(WeightTransferFailed) as failed:
        await link.send(1)
    assert failed.value.engines == (engines[1],)
    await link.abandon()
    assert source.released == 1


async def test_engine_beside_a_broken_one_stays_paused_until_the_next_update() -> None:
    good = RecordingEngine("a", [Location("a", 0)])
    bad = RecordingEngine("b", [Location("b", 0)], refused_call="update_weights_from_tensor")
    link = weight_link(Ranks(), [good, bad], "ipc")  # type: ignore[arg-type]
    with pytest.raises(WeightTransferFailed):
        await link.send(1)
    await link.abandon()
    assert good.names[-1] == "end_weight_update"  # a second begin without it is refused
    assert "continue_generation" not in good.names
    await weight_link(Ranks(), [good], "ipc").send(1)  # type: ignore[arg-type]
    assert good.names[-1] == "continue_generation"


async def test_engine_on_a_gpu_without_a_training_rank_is_an_error() -> None:
    with pytest.raises(EnginePoolError, match="no training rank"):
        await weight_link(Ranks(), [RecordingEngine("c", [Location("c", 0)])], "ipc").send(1)  # type: ignore[arg-type]


async def test_engine_stops_generating_before_it_sleeps_and_sleeps_once() -> None:
    engine = RecordingEngine("a")
    await engine.wake()
    await engine.sleep()
    await engine.sleep()
    await engine.wake()
    assert engine.names == ["pause_generation", "release_memory_occupation", "resume_memory_occupation"]
    assert engine.calls[0][1] == {"mode": "retract"}


class FakeServer:
    """An engine that exits on request and counts its starts."""

    locations = (Location("a", 0),)

    def __init__(self) -> None:
        self.starts = 0

    async def start(self, *, reads_model: bool = True) -> str:
        self.starts += 1
        return f"http://engine-{self.starts}"

    async def alive(self) -> bool:
        return False

    async def stop(self) -> None: ...


class FakeRouter:
    """A router that records the engines added to it."""

    def __init__(self) -> None:
        self.engines: list[str] = []

    async def start(self) -> None: ...

    async def add(self, url: str) -> None:
        self.engines.append(url)

    async def remove(self, url: str) -> None:
        self.engines.remove(url)


class FakeWeightSender:
    """A way to the engines that always works."""

    engines = ()

    async def send(self, version: int) -> None: ...

    async def adopt(self, version: int) -> bool:
        return False

    async def close(self) -> None: ...

    async def abandon(self) -> None: ...


@pytest.mark.parametrize(("backend", "starts_during_the_step"), [("ipc", 1), ("nccl", 2)])
async def test_engine_on_the_trainers_gpu_is_not_started_during_a_step(
    monkeypatch: pytest.MonkeyPatch, backend: Backend, starts_during_the_step: int
) -> None:
    monkeypatch.setattr(pools, "weight_link", lambda *_, **__: FakeWeightSender())
    handle, switch, trainer_lock = FakeServer(), FakeRouter(), asyncio.Lock()
    pool = EnginePool([handle], switch, None, backend=backend)  # type: ignore[arg-type, list-item]
    await pool.start()
    await pool.attach(Ranks(), 0, trainer_lock)  # type: ignore[arg-type]
    async with trainer_lock:
        replacing = asyncio.create_task(pool._replace(pool._slots[0]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert handle.starts == starts_during_the_step
        assert not replacing.done()
    await replacing
    assert (handle.starts, pool.replaced, switch.engines) == (2, 1, ["http://engine-2"])
