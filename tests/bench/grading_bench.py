"""Grading Jobs, one at a time: seconds from asking for a verdict to having it, over the tests' own.

The gold patches of bundled tasks, through real Jobs on the node's cached images, each with a CPU of its own, nothing
else on the machine but the cluster.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path

from swerl_agent.grading import Grader
from swerl_agent.kube import KubeClient
from swerl_agent.tasks import load_tasks
from swerl_api import Grading, Resources

from demo.cluster import Cluster
from demo.job import Images
from images.bundled import demo_data
from tests.bench.figures import QUICK, Figure, conclude

ROUNDS = 8 if QUICK else 30
GOAL_SECONDS = 3.0
AMOUNTS: dict[str, str | int] = {"cpu": "1", "memory": "256Mi"}


async def overheads(kubeconfig: str) -> list[float]:
    """Seconds over the tests' own, grading by grading; the first one, which loads the library, is left out."""
    settings = Grading(
        timeout_seconds=120, cache=False, max_concurrent=1, resources=Resources(requests=AMOUNTS, limits=AMOUNTS)
    )
    with tempfile.TemporaryDirectory() as folder:
        demo_data(Path(folder), Images.built().references)
        tasks = load_tasks(Path(folder) / "train", "swebench-task-repo")
    namespace = f"bench-grading-{os.urandom(3).hex()}"
    async with KubeClient.from_environment(kubeconfig) as client:
        await client.create("v1", "namespaces", None, {"metadata": {"name": namespace}})
        try:
            async with Grader(client, namespace, settings) as grader:
                verdicts = [await grader.grade(task, task.evaluation.patch) for task in (tasks * 2)[: ROUNDS + 1]]
        finally:
            await client.delete("v1", "namespaces", None, namespace)
    assert all(verdict.resolved for verdict in verdicts), [v.detail for v in verdicts if not v.resolved]
    return [verdict.duration - verdict.report["seconds"] for verdict in verdicts[1:]]


def figures(kubeconfig: str) -> list[Figure]:
    """Median and 90th percentile."""
    seconds = sorted(asyncio.run(overheads(kubeconfig)))
    return [
        Figure("grading_over_tests_p50_s", statistics.median(seconds), GOAL_SECONDS),
        Figure("grading_over_tests_p90_s", seconds[int(0.9 * len(seconds))], GOAL_SECONDS),
    ]


if __name__ == "__main__":
    sys.exit(conclude(figures(str(Cluster.chosen().kubeconfig))))
