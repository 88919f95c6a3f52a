"""One training rank as a process of its own: `ranks.py JOB RANK WORLD_SIZE`.

For each case it reports log-probabilities, the metrics of three steps, those of the third step again from a checkpoint
taken after the second, where the checkpoint and the exported weights lie, and the metrics of a step from the job's own
`checkpoint`, which it also writes again as `copy`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from swerl_trainer.megatron.trainer import MegatronTrainer


def main(job_file: str, rank: int, world_size: int) -> None:
    job: dict[str, Any] = torch.load(job_file, weights_only=False)
    report: dict[str, Any] = {}
    for (name, config), port in zip(job["cases"].items(), job["ports"], strict=True):
        folder = Path(job["out"]).with_name(name)
        trainer = MegatronTrainer(config, rank=rank, world_size=world_size, address="127.0.0.1", port=port)
        before = trainer.log_probs(job["batch"])
        first = [trainer.train_step(job["batch"]) for _ in range(2)]
        trainer.save(str(folder / "checkpoint"))
        trainer.save_hf(str(folder / "hf"))
        last = trainer.train_step(job["batch"])
        after = trainer.log_probs(job["batch"])
        trainer.load(str(folder / "checkpoint"))
        again = trainer.train_step(job["batch"])
        resumed = {}
        if "checkpoint" in job:
            trainer.load(job["checkpoint"])
            trainer.save(str(folder / "copy"))
            resumed = trainer.train_step(job["batch"])
        trainer.close()
        steps = [*first, last]
        figures = {"steps": steps, "again": again, "resumed": resumed}
        report[name] = {"before": before, "after": after, "folder": folder, **figures}
    if rank == 0:
        torch.save(report, job["out"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
