"""A job on a Ray of this machine, with two engines: what its driver, its checkpoints and its weight updates cost."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import ray
from swerl_trainer.driver.components import AttemptComponents
from swerl_trainer.driver.training import Training
from swerl_trainer.job import Job, Paths
from swerl_trainer.metrics.sinks import rows

from tests.trainer.conftest import job_document
from tests.trainer.driver.conftest import LocalSandboxes, Watcher, local_worker
from tests.trainer.local_ray import RAY_ENVIRONMENT, RESOURCES, start_ray

ENGINES = 2


def shares_of_a_job(folder: Path, model: Path, *, steps: int, context: int, budget: int) -> list[dict[str, Any]]:
    """The job's figures, without its first step, in which processes warm up."""
    document = job_document(
        algorithm={"steps": steps, "promptsPerStep": 4, "groupSize": 8, "minibatches": 2, "lr": 1e-5},
        agent={"stepLimit": 4, "contextTokens": context, "maxTokensPerTurn": 48},
        trainer={"maxTokensPerGpu": budget, "env": {"OMP_NUM_THREADS": "2"}},
        rollout={"engines": ENGINES},
        evaluation=None,
    )
    return _figures(run_job(folder, model, document, LocalSandboxes(), engines=ENGINES))


def run_job(
    folder: Path, model: Path, document: dict[str, Any], sandboxes: LocalSandboxes, *, engines: int
) -> list[dict[str, Any]]:
    """Train `document` in `folder` to its end; the metrics of all steps, each with the time at which it was written."""
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(document))
    job = Job.read(folder / "job.json", Paths(model, folder / "tasks", folder / "held-out", folder / "output"))
    os.environ.update(RAY_ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="ray-") as sockets:  # a short path
        cluster = start_ray(Path(sockets), RESOURCES | {"engine": engines})
        try:
            ray.init(address=f"127.0.0.1:{cluster.port}", log_to_driver=False)
            asyncio.run(_train(job, sandboxes))
            ray.shutdown()
        finally:
            cluster.stop()
    return [row for row in rows(job.folder / "metrics.jsonl") if row["kind"] == "step"]


async def _train(job: Job, sandboxes: LocalSandboxes) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        components = AttemptComponents(
            job, http, time.monotonic(), make_worker=lambda url, number, judge: local_worker(job, url, sandboxes, http)
        )
        components.start()
        try:
            await Training(job, components, Watcher()).run()  # type: ignore[arg-type]
        finally:
            await components.close()


def _figures(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    later = steps[1:]
    total = sum(after["time"] - before["time"] for before, after in pairwise(steps))
    training = sum(step["perf/train_time"] - step["train/seconds"] for step in later)  # beside the ranks' own
    between = total - sum(step["perf/step_time"] for step in later)
    stall = sum(step["perf/checkpoint_time"] for step in later)
    updates = [step["perf/update_weights_time"] for step in later]
    return [
        {"name": "driver_share_of_a_step", "ours": (training + between) / total, "goal": 0.03},
        {"name": "save_stall_share_of_a_step", "ours": stall / total, "goal": 0.05},
        {"name": f"update_{ENGINES}_engines_s_p50", "ours": median(updates), "goal": 1.0},
    ]
