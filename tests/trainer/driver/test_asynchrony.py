"""Whole trainings on real ranks and a real engine, synchronous and ahead: what becomes of every group and token."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from swerl_trainer.checkpoints import CheckpointStore
from swerl_trainer.driver.components import AttemptComponents
from swerl_trainer.driver.training import Training
from swerl_trainer.job import Job
from swerl_trainer.metrics.sinks import rows
from swerl_trainer.rollout.operations import RolloutWorker

if TYPE_CHECKING:
    from .conftest import LocalSandboxes, Watcher

STEPS, PROMPTS, GROUP_SIZE = 4, 2, 2
BOUND = 3  # weight versions of the asynchronous modes
DELAYS = [0.0] * 3 + [4.0]  # seconds: a quarter of the episodes are slow
IN_FLIGHT = {"maxStaleness": BOUND, "partialRollouts": True}
MODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # changes of algorithm and rollout
    "synchronous": ({"maxStaleness": 0}, {}),
    "one step ahead": ({"maxStaleness": 1}, {}),
    "asynchronous": (IN_FLIGHT, {}),
    "asynchronous with kept cache": (IN_FLIGHT, {"keepCache": True}),
}
MISMATCH = "train/train_rollout_logprob_abs_diff_max"
DROPPED = "rollout/dynamic_filter/drop_"


@pytest.mark.parametrize("mode", MODES)
async def test_every_group_is_trained_dropped_with_a_reason_or_carried_over(
    mode: str,
    make_model: Callable[[int], Path],
    make_job: Callable[..., Job],
    make_worker: Callable[[Job, str], RolloutWorker],
    sandboxes: LocalSandboxes,
    watcher: Watcher,
    http: aiohttp.ClientSession,
    local_ray: Any,
) -> None:
    algorithm, rollout = MODES[mode]
    sizes = {"steps": STEPS, "promptsPerStep": PROMPTS, "groupSize": GROUP_SIZE, "dynamicFilter": False}
    job = make_job(make_model(0), algorithm=sizes | algorithm, rollout=rollout, evaluation=None)
    sandboxes.delays = itertools.cycle(DELAYS)
    components = AttemptComponents(
        job, http, time.monotonic(), make_worker=lambda url, number, judge: make_worker(job, url)
    )
    components.start()
    try:
        await Training(job, components, watcher).run()
    finally:
        await components.close()

    steps = [row for row in rows(job.folder / "metrics.jsonl") if row["kind"] == "step"]
    assert [row["step"] for row in steps] == [*range(1, STEPS + 1)]
    newest = CheckpointStore(job.checkpoints, keep_last=1).complete()[-1]
    dropped = sum(count for row in steps for name, count in row.items() if name.startswith(DROPPED))
    assert STEPS * PROMPTS + dropped + len(newest.state["pending"]) == newest.state["position"]
    assert not sandboxes.alive

    bound = algorithm["maxStaleness"]
    ages = [row["rollout/weight_staleness/max"] for row in steps]
    assert max(ages) <= bound and (max(ages) > 0) == (bound > 0), ages
    assert all(row[MISMATCH] <= 1e-4 for row in steps) if bound == 0 else all(row[MISMATCH] >= 0 for row in steps)
    in_flight = [spans for spans in versions_of_tokens(job) if len({version for version, _, _ in spans}) > 1]
    assert bool(in_flight) == algorithm.get("partialRollouts", False)


def versions_of_tokens(job: Job) -> list[list[Any]]:
    """(version, first token, end) of each episode's sampled tokens; fails unless they cover every one of them."""
    found = []
    for path in sorted((job.folder / "artifacts").glob("step-*/*/traj.json")):
        segments = json.loads(path.read_text())["info"]["segments"]
        for segment in segments:
            sampled = {place for place, trained in enumerate(segment["loss_mask"]) if trained}
            spans = segment["weight_versions"]
            assert sampled <= {place for _, start, end in spans for place in range(start, end)}, path
        found.append([span for segment in segments for span in segment["weight_versions"]])
    return found
