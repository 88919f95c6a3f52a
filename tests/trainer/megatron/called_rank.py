"""A training rank without Ray that is called by a file: `called_rank.py JOB RANK`.

The job has the rank's `config`, `world_size` and `port`, and `calls` of TrainRank's `run` after `begin`, each with its
keywords last. Before the last call, `begin` included, the rank writes `ready-RANK` beside the job and waits for `go`
there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from swerl_trainer.megatron.rank import TrainRank


def main(job_file: Path, number: int) -> None:
    job: dict[str, Any] = torch.load(job_file, weights_only=False)
    rank = TrainRank()
    place = (number, job["world_size"], "127.0.0.1", job["port"], job["world_size"])
    calls: list[Callable[[], Any]] = [partial(rank.begin, job["config"], *place)]
    calls += [partial(rank.run, *call[:-1], **call[-1]) for call in job["calls"]]
    for call in calls[:-1]:
        call()
    job_file.with_name(f"ready-{number}").touch()
    while not job_file.with_name("go").exists():
        time.sleep(0.1)
    calls[-1]()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
