"""The driver's façade on a real Ray: two ranks train, save, resume, and give an engine their weights."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import ray
import torch
from swerl_kube.logs import LogSettings
from swerl_trainer.algorithm import Batch, TrainingSample, demonstration_batch
from swerl_trainer.checkpoints import damage
from swerl_trainer.driver.resume import RESOURCE_PER_CHECK
from swerl_trainer.megatron.environment import cpu_threads
from swerl_trainer.megatron.errors import LayoutError, TrainerError
from swerl_trainer.megatron.group import TrainGroup, resource_per_rank
from swerl_trainer.megatron.rank import TrainRank

from ..local_ray import ray_cluster
from .families import read_folder

if TYPE_CHECKING:
    from .conftest import MakeConfig

RECEIVER = Path(__file__).with_name("receiver.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray head of this machine with the resource that places ranks."""
    with ray_cluster({"train": 2}):
        yield


@pytest.fixture
async def group(cluster: None, make_config: MakeConfig, tmp_path: Path) -> AsyncIterator[TrainGroup]:
    """Two data-parallel ranks with a KL term, hence a reference."""
    log = LogSettings("json", {"job": "demo"})
    config = replace(make_config(kl_coef=0.1), logs=str(tmp_path / "logs"), log=log)
    started = await TrainGroup.start(config, ranks=2, cpus_per_rank=0.5)
    yield started
    await started.close()


def demonstrations() -> Batch:
    return demonstration_batch([TrainingSample(list(range(9, 40)), [0] * 5 + [1] * 26, (), 0.0, True, "d", 0, "task")])


@pytest.mark.timeout(900)
async def test_two_ranks_train_resume_and_update_an_engine(group: TrainGroup, batch: Batch, tmp_path: Path) -> None:
    reference = await group.log_probs(batch, reference=True)
    first = await group.train_step(batch)
    assert first["sequences"] == len(batch) and first["kl"] == pytest.approx(0, abs=1e-9)
    supervised = await group.train_step(demonstrations())
    assert supervised["loss"] == pytest.approx(-supervised["logprob"])  # cross entropy, although the job is GRPO

    await group.begin_save(tmp_path / "checkpoint")
    unbroken, files = await asyncio.gather(group.train_step(batch), group.complete_save())
    assert damage(tmp_path / "checkpoint", files) == [] and len(files) >= 4
    assert unbroken["kl"] > 1e-6
    await group.load(tmp_path / "checkpoint")
    assert (await group.train_step(batch))["logprob"] == unbroken["logprob"]
    logprobs_after = await group.log_probs(batch, reference=True)
    assert all(torch.equal(a, b) for a, b in zip(reference, logprobs_after, strict=True))

    await group.save_hf(tmp_path / "hf")
    received = await receive_weights(group, tmp_path)
    written = read_folder(tmp_path / "hf")
    assert received.keys() == written.keys()
    assert all(torch.equal(received[name], tensor) for name, tensor in written.items())

    with pytest.raises(TrainerError, match=r"training rank \d failed: .*missing does not exist"):
        await group.load(tmp_path / "missing")
    for rank in range(2):
        await until_logged(tmp_path / "logs" / f"rank-{rank}.log", rank)
    ray.kill(group._ranks[1])
    with pytest.raises(TrainerError, match="training rank"):
        await group.train_step(batch)


async def until_logged(file: Path, rank: int) -> None:
    """Returns when a rank's log, which a thread writes, has its calls and its failure."""
    deadline = time.monotonic() + 30
    while "load failed after" not in (text := file.read_text() if file.exists() else ""):
        assert time.monotonic() < deadline, text
        await asyncio.sleep(0.1)
    lines = [json.loads(line) for line in text.splitlines()]
    assert {(line["job"], line["rank"]) for line in lines} == {("demo", rank)}
    calls = [line["message"].partition(" took")[0] for line in lines if " took " in line["message"]]
    assert calls[:4] == ["begin", "log_probs", "train_step", "train_step"] and "sender.send" not in calls
    assert "missing does not exist" in lines[-1]["error"]


async def test_failure_without_a_message_is_reported_by_place(cluster: None) -> None:
    never_begun = TrainGroup([ray.remote(TrainRank).remote()])
    try:
        with pytest.raises(TrainerError, match=r'training rank 0 failed: AssertionError at File ".*rank.py", line \d+'):
            await never_begun.disconnect_engines(0, "w")
    finally:
        await never_begun.close()


async def receive_weights(group: TrainGroup, folder: Path) -> dict[str, torch.Tensor]:
    """What a process that joins and unpacks as SGLang does gets in two transfers over one group."""
    address, port = await group.weight_endpoint()
    (part,) = await group.weight_parts(max_bytes=60_000)  # data-parallel ranks hold the same
    assert len(part.buckets) > 1
    torch.save([(b.names, b.dtypes, b.shapes) for b in part.buckets * 2], folder / "buckets.pt")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", str(RECEIVER), f"tcp://{address}:{port}", str(folder)
    )
    while not (folder / "ready").exists():  # it imports SGLang, which takes long on a busy machine
        assert process.returncode is None, "the receiver has ended"
        await asyncio.sleep(0.1)
    await group.connect_engines(part.rank, address, port, world_size=2, group_name="w", backend="gloo", timeout=60)
    for _ in range(2):
        await group.prepare_bucket(part)
        for number in range(len(part.buckets)):
            await group.send_bucket(part, number, group_name="w")
    assert await process.wait() == 0
    await group.disconnect_engines(part.rank, "w")
    received: dict[str, torch.Tensor] = torch.load(folder / "received.pt")
    return received


async def test_layout_that_does_not_fit_starts_nothing(make_config: MakeConfig) -> None:
    with pytest.raises(LayoutError):
        await TrainGroup.start(make_config(tensor_parallel=2), ranks=3)


def test_units_of_a_pod_have_room_for_its_ranks_and_a_check_of_files() -> None:
    for ranks in range(1, 65):
        each = resource_per_rank(ranks)
        assert ranks * each + RESOURCE_PER_CHECK <= ranks < (ranks + 1) * each, ranks


@pytest.mark.parametrize(("limit", "threads"), [("150000 100000", 1), ("max 100000", None), ("100 100000", 1)])
def test_ranks_of_a_node_share_the_containers_cpus(tmp_path: Path, limit: str, threads: int | None) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(limit + "\n")
    assert cpu_threads(1, quota) == (threads or len(os.sched_getaffinity(0)))
    assert cpu_threads(10_000, quota) == 1
