"""Training ranks as processes that a launcher forks after all imports: `ranks.py JOB WORLD_SIZE`.

For each case it reports log-probabilities before and after three steps and the steps' metrics. Unless the job says
`only_steps`, also those of the third step again from a checkpoint taken after the second, where the checkpoint and the
exported weights lie, and the metrics of a step from the job's own `checkpoint`, which it also
writes again as `copy`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from swerl_trainer.megatron.trainer import MegatronTrainer
from torch.multiprocessing.spawn import start_processes


def run_rank(rank: int, job: dict[str, Any], world_size: int) -> None:
    report: dict[str, Any] = {}
    for (name, config), port in zip(job["cases"].items(), job["ports"], strict=True):
        device = job.get("devices", {}).get(name)
        place: dict[str, Any] = {"rank": rank, "world_size": world_size, "address": "127.0.0.1", "port": port}
        trainer = MegatronTrainer(config, **place, device=device)
        report[name] = case(trainer, job, Path(job["out"]).with_name(name))
        trainer.close()
    if rank == 0:
        torch.save(report, job["out"])


def case(trainer: MegatronTrainer, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    batch, checkpoint = job["batch"], str(folder / "checkpoint")
    before = trainer.log_probs(batch)
    steps = [trainer.train_step(batch) for _ in range(2)]
    if not job.get("only_steps"):
        trainer.save(checkpoint)
        trainer.save_hf(str(folder / "hf"))
    steps.append(trainer.train_step(batch))
    found: dict[str, Any] = {"before": before, "steps": steps, "after": trainer.log_probs(batch), "folder": folder}
    if not job.get("only_steps"):
        trainer.load(checkpoint)
        found["again"] = trainer.train_step(batch)
    if "checkpoint" in job:
        trainer.load(job["checkpoint"])
        trainer.save(str(folder / "copy"))
        found["resumed"] = trainer.train_step(batch)
    return found


def main(job_file: str, world_size: int) -> None:
    job: dict[str, Any] = torch.load(job_file, weights_only=False)
    start_processes(run_rank, args=(job, world_size), nprocs=world_size, start_method="fork")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
