"""A whole training on real ranks and a real engine, after a supervised step; only sandboxes and tests are local."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from swerl_trainer.driver.job import Job
from swerl_trainer.driver.place import Placement
from swerl_trainer.driver.training import Training
from swerl_trainer.metrics.sinks import rows

if TYPE_CHECKING:
    from .conftest import LocalSandboxes, LocalWorker, Watcher

DISTANCE = "train/train_rollout_logprob_abs_diff_max"
WARM_START: dict[str, Any] = {"sft": {"data": "demonstrations.jsonl", "steps": 1, "batchSize": 2, "lr": 5e-4}}


def write_demonstrations(job: Job) -> None:
    said = [("system", "You fix code."), ("user", "task 1"), ("assistant", "done")]
    messages = [{"role": role, "content": content} for role, content in said]
    job.paths.tasks.mkdir()
    (job.paths.tasks / WARM_START["sft"]["data"]).write_text(json.dumps({"messages": messages}) + "\n")


async def test_a_job_trains_and_an_attempt_after_it_goes_on(
    make_model: Callable[[int], Path],
    make_job: Callable[..., Job],
    make_worker: Callable[[Job, str], LocalWorker],
    sandboxes: LocalSandboxes,
    watcher: Watcher,
    http: aiohttp.ClientSession,
    local_ray: Any,
) -> None:
    first = make_job(make_model(0), algorithm=WARM_START)
    write_demonstrations(first)
    placement = Placement(first, http, time.monotonic(), make_worker=lambda url, number, judge: make_worker(first, url))
    placement.begin()
    try:
        await Training(first, placement, watcher).run()
        assert watcher.steps[-1]["step"] == 2
        assert set(watcher.rates) == {"before", "after"}
        assert (first.checkpoints / "step-0000002" / "COMPLETE").is_file()

        second = make_job(make_model(0), attempt=2, algorithm=WARM_START | {"steps": 3})
        await Training(second, placement, watcher).run()
    finally:
        await placement.close()

    recorded = list(rows(first.runs / "metrics.jsonl"))
    supervised = [row for row in recorded if row["kind"] == "supervised"]
    assert [(row["step"], row["attempt"], row["train/lr"]) for row in supervised] == [(1, 1, 5e-4)]
    figures = [row for row in recorded if row["kind"] == "step"]
    assert {row["train/lr"] for row in figures if "train/lr" in row} == {1e-3}
    assert [(row["step"], row["attempt"]) for row in figures] == [(1, 1), (2, 1), (3, 2)]
    assert all(row[DISTANCE] <= 1e-4 for row in figures)
    assert any(row["train/grad_norm"] > 0 for row in figures if "train/grad_norm" in row)
    trained = [name for name, _ in sandboxes.declared if "-g" in name]
    assert [name.rsplit("-", 1)[1] for name in trained][:6] == ["g0", "g1", "g2", "g3", "g4", "g5"]
    assert not sandboxes.alive
    traces = list((first.runs / "artifacts" / "step-0001").glob("*/traj.json"))
    assert len(traces) == 8
