"""Grading Jobs, one at a time: seconds from asking for a verdict to having it, over the tests' own.

Then verdicts from the cache, and many Jobs at once.

The gold patches of bundled tasks, through real Jobs on the node's cached images, each with a CPU of its own, nothing
else on the machine but the cluster.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swerl_agent.grading import Grader
from swerl_agent.tasks import Task, load_tasks
from swerl_api import GradingSpec, Resources
from swerl_kube import KubeClient

from demo.cluster import DemoCluster
from demo.job import Images
from images.bundled import demo_data
from tests.bench.figures import QUICK, Figure, conclude

ROUNDS = 8 if QUICK else 30
GOAL_SECONDS = 1.5
CONTRAST_GOAL_SECONDS = 2.0  # with one more run of the tests, whose own time is left out too
CROWD = 64  # gradings at once
CACHED_ROUNDS = 20
CACHED_GOAL_MS = 50.0
GOAL_DURATION = 600.0  # seconds of all measurements together
WHOLE: dict[str, str | int] = {"cpu": "1", "memory": "256Mi"}  # of a Pod that nothing disturbs
SMALL: dict[str, str | int] = {"cpu": "30m", "memory": "64Mi"}  # of one in a crowd


@dataclass(frozen=True)
class Measured:
    """What the gradings came to."""

    overheads: list[float]  # seconds over the tests' own, one Job at a time, without contrast
    contrasted: list[float]  # the same with contrast, of tasks that are calibrated
    cached: list[float]  # seconds of a verdict that was known
    lost: int  # of the crowd: gradings without the verdict they must have


def figures(kubeconfig: str) -> list[Figure]:
    """Median and 90th percentile of the overhead, a cached verdict, what a crowd loses."""
    found = asyncio.run(measure(kubeconfig))
    seconds = sorted(found.overheads)
    return [
        Figure("grading_over_tests_p50_s", statistics.median(seconds), GOAL_SECONDS),
        Figure("grading_over_tests_p90_s", seconds[int(0.9 * len(seconds))], GOAL_SECONDS),
        Figure("grading_contrast_over_tests_p50_s", statistics.median(found.contrasted), CONTRAST_GOAL_SECONDS),
        Figure("grading_cached_p50_ms", 1e3 * statistics.median(found.cached), CACHED_GOAL_MS),
        Figure(f"grading_{CROWD}_at_once_lost", found.lost, 0),
    ]


def timed_figures(kubeconfig: str) -> list[Figure]:
    """The figures, and the seconds that measuring them took, without the cluster's and the images' preparation."""
    began = time.monotonic()
    return [*figures(kubeconfig), Figure("bench_grading_s", time.monotonic() - began, GOAL_DURATION)]


async def measure(kubeconfig: str) -> Measured:
    """All three, in a namespace of their own."""
    with tempfile.TemporaryDirectory() as folder:
        demo_data(Path(folder), Images.load().references)
        tasks = load_tasks(Path(folder) / "train", "swebench-task-repo")
        namespace = f"bench-grading-{os.urandom(3).hex()}"
        async with KubeClient.from_environment(kubeconfig) as client:
            await client.create("namespaces", {"apiVersion": "v1", "metadata": {"name": namespace}})
            try:
                plain = _settings(1, WHOLE).model_copy(update={"contrast": "never"})
                async with Grader(client, namespace, plain) as grader:
                    overheads = await one_by_one(grader, tasks)
                async with Grader(client, namespace, _settings(1, WHOLE)) as grader:
                    contrasted = await calibrated(grader, tasks)
                cached = _settings(1, WHOLE).model_copy(update={"cache": True})
                async with Grader(client, namespace, cached, cache_directory=Path(folder) / "verdicts") as grader:
                    known = await from_cache(grader, tasks[0])
                async with Grader(client, namespace, _settings(CROWD, SMALL)) as grader:
                    return Measured(overheads, contrasted, known, await at_once(grader, tasks))
            finally:
                await client.delete("v1", "namespaces", None, namespace)


async def one_by_one(grader: Grader, tasks: Sequence[Task]) -> list[float]:
    """Seconds over the tests' own, grading by grading; the first one, which loads the library, is left out."""
    verdicts = [await grader.grade(task, task.ground_truth.patch) for task in ([*tasks] * 2)[: ROUNDS + 1]]
    assert all(verdict.resolved for verdict in verdicts), [v.detail for v in verdicts if not v.resolved]
    return [verdict.duration - verdict.report["seconds"] for verdict in verdicts[1:]]


async def calibrated(grader: Grader, tasks: Sequence[Task]) -> list[float]:
    """Seconds over the tests' own in both runs; the first grading of each task calibrates it and is left out."""
    chosen = tasks[: max(1, ROUNDS // 4)]
    verdicts = [await grader.grade(task, task.ground_truth.patch) for task in [*chosen, *chosen]][len(chosen) :]
    assert all(verdict.report["contrast"] == "held" for verdict in verdicts), [v.detail for v in verdicts]
    return [each.duration - each.report["seconds"] - each.report["contrast_seconds"] for each in verdicts]


async def from_cache(grader: Grader, task: Task) -> list[float]:
    """Seconds of a verdict asked for again."""
    first = await grader.grade(task, task.ground_truth.patch)
    times = []
    for _ in range(CACHED_ROUNDS):
        began = time.perf_counter()
        again = await grader.grade(task, task.ground_truth.patch)
        times.append(time.perf_counter() - began)
        assert again.resolved and again.report == first.report
    return times


async def at_once(grader: Grader, tasks: Sequence[Task]) -> int:
    """Gradings of a crowd that lack the verdict they must have: every second patch fixes nothing."""
    chosen = [tasks[number % len(tasks)] for number in range(CROWD)]
    patches = [_note(n) + (task.ground_truth.patch if n % 2 else "") for n, task in enumerate(chosen)]
    verdicts = await asyncio.gather(*map(grader.grade, chosen, patches))
    wanted = ["resolved" if number % 2 else "unresolved" for number in range(CROWD)]
    return sum(verdict.status != status for verdict, status in zip(verdicts, wanted, strict=True))


def _note(number: int) -> str:
    """A patch that adds a file of no importance, so that no two patches of the crowd are the same."""
    name = f"note-{number}.txt"
    return (
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{number}\n"
    )


def _settings(at_once: int, amounts: dict[str, str | int]) -> GradingSpec:
    resources = Resources(requests=amounts, limits=amounts | {"cpu": "1"})
    return GradingSpec(timeout_seconds=300, cache=False, max_concurrent=at_once, resources=resources)


if __name__ == "__main__":
    sys.exit(conclude(timed_figures(str(DemoCluster.from_environment().kubeconfig))))
