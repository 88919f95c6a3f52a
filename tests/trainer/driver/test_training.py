"""A whole training on real ranks and a real engine, after a supervised step; only sandboxes and tests are local. Then
jobs on one volume, of supervised steps alone."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiohttp
import torch
from swerl_trainer.checkpoints import CheckpointStore
from swerl_trainer.driver.components import AttemptComponents
from swerl_trainer.driver.ownership import take_ownership
from swerl_trainer.driver.training import Training
from swerl_trainer.job import Job
from swerl_trainer.metrics.sinks import rows
from swerl_trainer.mirror import mirror_of
from swerl_trainer.rollout.operations import RolloutWorker
from transformers import AutoModelForCausalLM

if TYPE_CHECKING:
    from .conftest import LocalSandboxes, Watcher

LARGEST_MISMATCH = "train/train_rollout_logprob_abs_diff_max"
WARM_START: dict[str, Any] = {"sft": {"data": "demonstrations.jsonl", "steps": 1, "batchSize": 2, "lr": 5e-4}}
SUPERVISED: dict[str, Any] = {"name": "sft", "sft": WARM_START["sft"] | {"steps": 2}}
LAYER = "model.layers.N."
KINDS = {  # of weights in a layer, one of which is compared after each update
    *(f"{LAYER}self_attn.{name}.weight" for name in ("qkv_proj", "o_proj", "q_norm", "k_norm")),
    *(f"{LAYER}mlp.{name}.weight" for name in ("gate_up_proj", "down_proj")),
    *(f"{LAYER}{name}_layernorm.weight" for name in ("input", "post_attention")),
}
OLD, NEW, OTHER = "00000000-old", "11111111-new", "22222222-other"  # uids


def write_demonstrations(job: Job) -> None:
    conversation = [("system", "You fix code."), ("user", "task 1"), ("assistant", "done")]
    messages = [{"role": role, "content": content} for role, content in conversation]
    job.paths.tasks.mkdir()
    (job.paths.tasks / WARM_START["sft"]["data"]).write_text(json.dumps({"messages": messages}) + "\n")


async def test_job_trains_and_the_next_attempt_continues(
    make_model: Callable[[int], Path],
    make_job: Callable[..., Job],
    make_worker: Callable[[Job, str], RolloutWorker],
    sandboxes: LocalSandboxes,
    watcher: Watcher,
    http: aiohttp.ClientSession,
    local_ray: Any,
) -> None:
    saving = {"export": {}, "mirror": f"memory://{uuid4()}"}
    first = make_job(make_model(0), algorithm=WARM_START, checkpoint=saving)
    write_demonstrations(first)
    components = AttemptComponents(
        first, http, time.monotonic(), make_worker=lambda url, number, judge: make_worker(first, url)
    )
    components.start()
    try:
        await Training(first, components, watcher).run()
        assert watcher.steps[-1]["step"] == 2
        assert set(watcher.rates) == {"before", "after"}
        assert (first.checkpoints / "step-0000002" / "COMPLETE").is_file()

        shutil.rmtree(first.checkpoints)
        second = make_job(make_model(0), attempt=2, algorithm=WARM_START | {"steps": 3}, checkpoint=saving)
        await Training(second, components, watcher).run()
    finally:
        await components.close()

    copies = mirror_of(first, "checkpoints")
    assert copies is not None and copies.names() == ["step-0000002", "step-0000003"]
    exports = sorted(first.exports.iterdir())
    assert [path.name for path in exports] == copies.names()
    base, last = (AutoModelForCausalLM.from_pretrained(path) for path in (first.paths.model, exports[-1]))
    assert not torch.equal(base.model.norm.weight, last.model.norm.weight)
    recorded = list(rows(first.folder / "metrics.jsonl"))
    supervised = [row for row in recorded if row["kind"] == "supervised"]
    assert [(row["step"], row["attempt"], row["train/lr"]) for row in supervised] == [(1, 1, 5e-4)]
    figures = [row for row in recorded if row["kind"] == "step"]
    assert {row["train/lr"] for row in figures if "train/lr" in row} == {1e-3}
    assert [(row["step"], row["attempt"]) for row in figures] == [(1, 1), (2, 1), (3, 2)]
    assert all(row[LARGEST_MISMATCH] <= 1e-4 for row in figures)
    assert any(row["train/grad_norm"] > 0 for row in figures if "train/grad_norm" in row)
    trained = [name for name, _ in sandboxes.declared if "-g" in name]
    assert [name.rsplit("-", 1)[1] for name in trained][:6] == ["g0", "g1", "g2", "g3", "g4", "g5"]
    assert not sandboxes.alive
    assert components.pool is not None
    assert components.pool.check.matched >= KINDS and components.pool.check.mismatches == 0
    traces = list((first.folder / "artifacts" / "step-0001").glob("*/traj.json"))
    assert len(traces) == 8


def no_worker(router: str, number: int, judge: str | None) -> RolloutWorker:
    raise AssertionError("supervised training without evaluation makes no episodes")


def trained(folder: Path) -> tuple[list[int], list[int]]:
    """Steps of the figures and of the complete checkpoints in a job's folder."""
    checkpoints = CheckpointStore(folder / "checkpoints").complete()
    return [row["step"] for row in rows(folder / "metrics.jsonl")], [saved.step for saved in checkpoints]


def cut_shard(checkpoint: Path) -> None:
    shard = next(checkpoint.glob("*.distcp"))
    shard.write_bytes(shard.read_bytes()[:-1])


async def test_recreated_job_starts_from_its_model(
    make_model: Callable[[int], Path],
    make_job: Callable[..., Job],
    watcher: Watcher,
    http: aiohttp.ClientSession,
    local_ray: Any,
) -> None:
    model = make_model(0)

    def job(uid: str, name: str = "demo", attempt: int = 1) -> Job:
        sections = {"algorithm": SUPERVISED, "evaluation": None, "checkpoint": {"export": {}}}
        return make_job(model, attempt, name=name, uid=uid, **sections)

    old = job(OLD)
    write_demonstrations(old)
    components = AttemptComponents(old, http, time.monotonic(), make_worker=no_worker)
    components.start()
    steps_started: list[int] = []
    try:
        for each in (old, job(OTHER, "beside"), job(OLD, attempt=2), job(NEW), job(NEW, attempt=2)):
            reported_steps = len(watcher.steps)
            if (each.uid, each.attempt) == (NEW, 2):
                cut_shard(each.checkpoints / "step-0000002")
            if (each.uid, each.attempt) == (OLD, 2):  # as after an attempt that ended before its last export
                shutil.rmtree(each.exports)
            take_ownership(each)
            await Training(each, components, watcher).run()
            steps_started.append(watcher.steps[reported_steps]["step"])
    finally:
        await components.close()

    assert steps_started == [0, 0, 2, 0, 1]  # the last one after a damaged checkpoint
    assert watcher.steps[-1]["last_checkpoint"] == str(old.checkpoints / "step-0000002")
    output = old.paths.output
    assert sorted(path.name for path in output.iterdir()) == ["beside", "demo", "demo.00000000"]
    for folder in output.iterdir():
        assert trained(folder) == ([1, 2], [1, 2])
        assert [path.name for path in (folder / "exports").iterdir()] == ["step-0000002"]
