"""One training rank on a device of choice, as a process of its own: `rank.py JOB`.

It reports log-probabilities before and after, and the metrics of each step; `load` and `save` name checkpoints to begin
from and to end with.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from swerl_trainer.megatron.trainer import MegatronTrainer


def main(job_file: str) -> None:
    job: dict[str, Any] = torch.load(job_file, weights_only=False)
    batch = job["batch"]
    trainer = MegatronTrainer(
        job["config"], rank=0, world_size=1, address="127.0.0.1", port=job["port"], device=job["device"]
    )
    if job["load"] is not None:
        trainer.load(str(job["load"]))
    logprobs_before = trainer.log_probs(batch)
    steps = [trainer.train_step(batch) for _ in range(job["steps"])]
    if job["save"] is not None:
        trainer.save(str(job["save"]))
    report = {"before": logprobs_before, "steps": steps, "after": trainer.log_probs(batch)}
    trainer.close()
    torch.save(report, job["out"])


if __name__ == "__main__":
    main(sys.argv[1])
