"""What the agent and its grading cost, and how exact they are: a turn's way to the sandbox, many episodes, grading,
context, tokens of black-box agents, verdicts beside swebench's.

The share of the sandbox is that of a short run of the demo's own job. QUICK=1 takes fewer of its steps and grades
fewer patches.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

from swerl_kube import KubeClient

from cluster.layout import swerl_home
from demo.cluster import DemoCluster
from demo.job import job_manifest
from demo.report import read_metrics
from demo.run import fetch_output, train
from demo.setup import prepare
from demo.steps import StepFailed, Steps
from tests.bench import context_bench, grading_bench, parity_bench
from tests.bench.exec_peers.targets import pods
from tests.bench.figures import QUICK, Figure, conclude
from tests.bench.many_episodes import EPISODES, ConcurrentEpisodes, run_concurrently
from tests.bench.turns import share_of_a_turn

PODS = 32  # for the episodes; each holds several
STEPS = 3 if QUICK else 8
FOLDER = swerl_home() / "bench-agent"


def steps_of_the_demo(cluster: DemoCluster) -> list[dict[str, float]]:
    """Figures of each step of a short run of the demo's job."""
    images = prepare(cluster, Steps())
    job = job_manifest(images)
    job["spec"]["algorithm"]["steps"] = STEPS
    job["spec"]["evaluation"] |= {"atStart": False, "atEnd": False}
    status, _ = train(cluster, job)
    if status.get("phase") != "Complete":
        raise StepFailed(f"the job ended as {status.get('phase')}")
    return read_metrics(fetch_output(cluster, images, FOLDER))


def demo_figures(rows: Sequence[Mapping[str, float]]) -> list[Figure]:
    """What the demo's episodes waited for their sandboxes: on the way there and back, and until there was one.

    The first step's sandboxes cannot be prefetched.
    """
    hits, misses = (sum(row[f"sandbox/prefetch_{what}"] for row in rows[1:]) for what in ("hits", "misses"))
    return [
        share_of_a_turn(rows),
        Figure("sandbox_ready_when_wanted", hits / (hits + misses), 0.95, at_least=True),
    ]


async def concurrent_episodes(kubeconfig: str) -> ConcurrentEpisodes:
    """Many episodes in real Pods."""
    async with KubeClient.from_environment(kubeconfig) as client, pods(client, kubeconfig, PODS) as place:
        return await run_concurrently(place)


def gateway_logprob_difference() -> float:
    """Largest distance of a sampled token's log-prob from what the same engine says again, in the trainer's image."""
    test = ["python", "-m", "pytest", "-q", "-s", "tests/trainer/engines/test_gateway.py"]
    done = subprocess.run([sys.executable, "-m", "images", "trainer", "--", *test], capture_output=True, text=True)
    found = re.search(r"largest distance (\S+) over \d+ tokens", done.stdout)
    if found is None:
        raise StepFailed(f"no distance was measured: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(found[1])


def main() -> int:
    cluster = DemoCluster.from_environment()
    kubeconfig = str(cluster.kubeconfig)
    waits = demo_figures(steps_of_the_demo(cluster))
    episodes = asyncio.run(concurrent_episodes(kubeconfig))
    verdicts = parity_bench.compare()
    print(f"{episodes.endings} in {episodes.seconds:.0f} s; {verdicts}\n")
    found = [
        *waits,
        Figure(f"cores_of_{EPISODES}_episodes", episodes.cores, 1.0),
        Figure(f"episodes_of_{EPISODES}_lost", EPISODES - episodes.endings.get("submitted", 0), 0),
        *grading_bench.figures(kubeconfig),
        *context_bench.figures(),
        Figure("gateway_logprob_distance", gateway_logprob_difference(), 1e-4),
        Figure("verdicts_unlike_swebench", len(verdicts.differences), 0),
    ]
    return conclude(found, FOLDER / "figures.json")


if __name__ == "__main__":
    sys.exit(main())
