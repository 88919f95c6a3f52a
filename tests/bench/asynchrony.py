"""Steps per hour over sandboxes with a fixed long tail: synchronous, one step ahead, and fully asynchronous."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from tests.bench.training_job import run_job
from tests.trainer.conftest import job_document
from tests.trainer.driver.conftest import LocalSandboxes

FAST, SLOW = 0.5, 16.0  # seconds that an episode waits for its sandbox's first command
SLOW_EVERY = 8  # of the episodes in the order in which they begin
BOUND = 8  # weight versions
MODES: dict[str, dict[str, Any]] = {
    "sync": {"maxStaleness": 0},
    "one_ahead": {"maxStaleness": 1},
    "async": {"maxStaleness": BOUND, "partialRollouts": True},
}


def steps_per_hour(folder: Path, model: Path, *, quick: bool) -> list[dict[str, Any]]:
    """Of each mode, without the first step; those ahead against the synchronous one, and the oldest tokens trained."""
    folder.mkdir()
    steps = 4 if quick else 8
    runs = {mode: _run(folder / mode, model, steps, algorithm) for mode, algorithm in MODES.items()}
    rates = {
        mode: 3600 / mean(after["time"] - before["time"] for before, after in pairwise(run))
        for mode, run in runs.items()
    }
    ahead = [
        {"name": f"{mode}_steps_per_hour", "ours": rates[mode], "peer": rates["sync"], "goal": goal, "at_least": True}
        for mode, goal in (("one_ahead", 1.0), ("async", 2.5))
    ]
    oldest = max(step["rollout/weight_staleness/max"] for step in runs["async"])
    return [*ahead, {"name": "async_oldest_weight_versions", "ours": oldest, "goal": BOUND}]


def _run(folder: Path, model: Path, steps: int, algorithm: dict[str, Any]) -> list[dict[str, Any]]:
    document = job_document(
        algorithm={"steps": steps, "promptsPerStep": 4, "groupSize": 4, "minibatches": 1, "lr": 1e-5, **algorithm},
        agent={"stepLimit": 2, "contextTokens": 512, "maxTokensPerTurn": 32},
        trainer={"maxTokensPerGpu": 4096, "env": {"OMP_NUM_THREADS": "2"}},
        rollout={"engines": 1},
        evaluation=None,
    )
    return run_job(folder, model, document, LocalSandboxes(delays=_delays()), engines=1)


def _delays() -> Iterator[float]:
    return itertools.cycle([FAST] * (SLOW_EVERY - 1) + [SLOW])
