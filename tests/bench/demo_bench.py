"""The demo over three seeds: what it learns, how long it takes, whether engine and trainer agree, what it occupies,
what of its turns the sandboxes take.

Then, on the same cluster at rest, grading and exec. QUICK=1 runs one seed and fewer rounds.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from cluster.layout import swerl_home
from demo.cluster import DemoCluster
from demo.job import job_manifest
from demo.report import read_metrics
from demo.run import demo, train
from demo.setup import prepare
from demo.steps import Steps
from tests.bench import exec_bench, grading_bench
from tests.bench.figures import QUICK, Figure, conclude
from tests.bench.turns import share_of_a_turn

PASS_STEPS = 8  # steps that see every training task once: 32 tasks, 4 prompts a step
GIB = 1 << 30


def start_rate() -> float:
    """Resolved rate of the model as it is given, over all training tasks: an evaluation before the first step."""
    cluster = DemoCluster.from_environment()
    job = job_manifest(prepare(cluster, Steps()))
    spec = job["spec"]
    spec["algorithm"]["steps"] = 1
    spec["evaluation"] |= {"source": spec["tasks"]["source"], "samples": 4, "atEnd": False}
    status, _ = train(cluster, job)
    return float(status["heldOut"]["before"])


def last_pass(summary: dict[str, Any]) -> float:
    """Resolved rate over the last pass through the training tasks."""
    return fmean(summary["resolved_rates"][-PASS_STEPS:])


def held_out_rise(summary: dict[str, Any]) -> float:
    """Points from before to after."""
    return 100 * float(summary["held_out_after"] - summary["held_out_before"])


def reward_rise(summary: dict[str, Any]) -> float:
    """From the first pass over the training tasks to the last."""
    rewards = summary["rewards"]
    return fmean(rewards[-PASS_STEPS:]) - fmean(rewards[:PASS_STEPS])


def logprob_distance(summary: dict[str, Any]) -> float:
    """The largest of all steps. Raises ValueError where one is not finite, which `max` could pass over."""
    distances = [float(distance) for distance in summary["logprob_max_abs_diff"]]
    if not all(map(math.isfinite, distances)):
        raise ValueError(f"a step's log-prob distance is not finite: {distances}")
    return max(distances)


class Memory:
    """Most memory of the whole machine in use at once, page cache left out."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look twice a second meanwhile."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
            sizes = {words[0]: int(words[1]) * 1024 for words in lines}
            self.peak = max(self.peak, sizes["MemTotal:"] - sizes["MemAvailable:"])


def figures(start: float, summaries: list[dict[str, Any]], memory: Memory) -> list[Figure]:
    """What the runs of the demo came to; `start` is the resolved rate before training."""
    seconds = [summary["seconds"]["job_complete"] for summary in summaries]
    return [
        Figure("train_points_mean", 100 * (fmean(map(last_pass, summaries)) - start), 40, at_least=True),
        Figure("held_out_points_mean", fmean(map(held_out_rise, summaries)), 20, at_least=True),
        Figure("reward_rise_least", min(map(reward_rise, summaries)), 0.05, at_least=True),
        Figure("apply_to_complete_s_slowest", max(seconds), 900),
        Figure("logprob_distance_max", max(map(logprob_distance, summaries)), 1e-4),
        Figure("machine_memory_peak_gib", memory.peak / GIB, 12),
    ]


def main() -> int:
    folder, memory, seeds = swerl_home() / "bench-demo", Memory(), range(1 if QUICK else 3)
    with memory.watched():
        start = start_rate()
        summaries = [demo(seed, folder / str(seed)) for seed in seeds]
    found = figures(start, summaries, memory)
    found.append(share_of_a_turn([row for seed in seeds for row in read_metrics(folder / str(seed) / "output")]))
    kubeconfig = str(DemoCluster.from_environment().kubeconfig)
    found += grading_bench.figures(kubeconfig)
    found += asyncio.run(exec_bench.figures(kubeconfig))
    print(f"\n{len(summaries)} seeds")
    return conclude(found, folder / "figures.json")


if __name__ == "__main__":
    sys.exit(main())
