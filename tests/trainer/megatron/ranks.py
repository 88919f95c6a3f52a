"""Training ranks as processes that a launcher forks after all imports: `ranks.py JOB WORLD_SIZE`.

For each case it reports log-probabilities before and after three steps, the steps' metrics, and which ranks send the
weights, whose parts it compares with the whole model. Unless the job says
`only_steps`, also those of the third step again from a checkpoint taken after the second, where the checkpoint and the
exported weights lie, and the metrics of a step from the job's own `checkpoint`, which it also
writes again as `copy`.

With `only_gradients` in the job it reports, for each rank whose gradients are infinite and for none, what the ranks
answer to whether all gradients are finite.

With `only_exports` in the job it reports where the exported weights lie, which of them each rank sends, and samples of
them.
"""

from __future__ import annotations

import faulthandler
import math
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swerl_trainer.megatron.gradients import gradients_are_finite
from swerl_trainer.megatron.model import export_weights
from swerl_trainer.megatron.trainer import MegatronTrainer
from swerl_trainer.megatron.weight_part import own_names
from swerl_trainer.weight_bucket import WeightBucket, WeightSample
from torch.multiprocessing.spawn import start_processes

START_SECONDS = 240  # for a rank to start; gloo was seen to wait for ever although all its sockets were connected


def run_rank(rank: int, job: dict[str, Any], world_size: int) -> None:
    report: dict[str, Any] = {}
    for (name, config), port in zip(job["cases"].items(), job["ports"], strict=True):
        device = job.get("devices", {}).get(name)
        place: dict[str, Any] = {"rank": rank, "world_size": world_size, "address": "127.0.0.1", "port": port}
        faulthandler.dump_traceback_later(START_SECONDS, exit=True)
        trainer = MegatronTrainer(config, **place, device=device)
        faulthandler.cancel_dump_traceback_later()
        what = exports if job.get("only_exports") else answers if job.get("only_gradients") else case
        report[name] = what(trainer, job, Path(job["out"]).with_name(name))
        trainer.close()
    if rank == 0:
        torch.save(report, job["out"])


def case(trainer: MegatronTrainer, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    batch, checkpoint = job["batch"], str(folder / "checkpoint")
    before = trainer.log_probs(batch)
    steps = [trainer.train_step(batch) for _ in range(2)]
    senders = senders_of(trainer)
    if not job.get("only_steps"):
        trainer.save(checkpoint)
        trainer.save_hf(str(folder / "hf"))
    steps.append(trainer.train_step(batch))
    found: dict[str, Any] = {"before": before, "steps": steps, "after": trainer.log_probs(batch)}
    found |= {"folder": folder, "senders": senders}
    if not job.get("only_steps"):
        trainer.load(checkpoint)
        found["again"] = trainer.train_step(batch)
    if "checkpoint" in job:
        trainer.load(job["checkpoint"])
        trainer.save(str(folder / "copy"))
        found["resumed"] = trainer.train_step(batch)
    return found


def exports(trainer: MegatronTrainer, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    (folder / "hf").mkdir(parents=True, exist_ok=True)
    (folder / "hf" / "old.safetensors").touch()  # which the export replaces
    trainer.save_hf(str(folder / "hf"))
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, own_names(trainer.architecture))
    return {"folder": folder, "parts": parts, "samples": samples_of(trainer)}


def answers(trainer: MegatronTrainer, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for broken in (None, *range(dist.get_world_size())):
        for module in trainer.modules:
            for buffer in module.buffers:
                buffer.grad_data.fill_(math.inf if dist.get_rank() == broken else 1.0)
        finite: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(finite, gradients_are_finite(trainer.modules))
        found[f"broken {broken}"] = finite
    return found


def samples_of(trainer: MegatronTrainer) -> list[WeightSample]:
    """What is compared after the updates to as many versions as there are samples, with engines of two ranks."""
    return [trainer.sender.sample(version, 2) for version in range(trainer.architecture.layers + 1)]


def senders_of(trainer: MegatronTrainer) -> list[int]:
    """The ranks that send a part of the weights; together they are the model, each tensor once."""
    part = trainer.sender.part(20_000)
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, part)
    sent: dict[str, torch.Tensor] = {}
    for each in parts:
        for number, bucket in enumerate(each.buckets):
            if each.rank == part.rank:
                trainer.sender.prepare(number)
                assert trainer.sender._ready is not None
                sent |= tensors_of(bucket, trainer.sender._ready[1])
            elif part.rank in each.helpers and number < each.shared:
                trainer.sender.help(number)
    with trainer.device.active():
        exported = {
            n: t.clone() for n, t in export_weights(trainer.model, trainer.architecture, None, trainer.adapters)
        }
    assert sorted(name for each in parts for b in each.buckets for name in b.names) == sorted(exported)
    assert all(torch.equal(tensor, exported[name]) for name, tensor in sent.items())
    return [each.rank for each in parts if each.buckets]


def tensors_of(bucket: WeightBucket, flat: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors in the content of a bucket."""
    found, start = {}, 0
    for name, dtype_name, shape in zip(bucket.names, bucket.dtypes, bucket.shapes, strict=True):
        dtype: torch.dtype = getattr(torch, dtype_name)
        end = start + math.prod(shape) * dtype.itemsize
        found[name] = flat[start:end].clone().view(dtype).view(shape)
        start = end
    assert start == len(flat)
    return found


def main(job_file: str, world_size: int) -> None:
    job: dict[str, Any] = torch.load(job_file, weights_only=False)
    start_processes(run_rank, args=(job, world_size), nprocs=world_size, start_method="fork")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
