"""A job whose ranks are in two Pods beside two engines in Pods of their own, in one layout and, resumed, in another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.e2e.product_namespace import ProductNamespace

RANKS = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^ray::Train[R]ank'"  # not the shell that counts
PODS = 2


def ranks_in(product_namespace: ProductNamespace, pod: str) -> int:
    """Processes of training ranks in a Pod, `pod/<name>`."""
    answer = product_namespace.cluster.kubectl(
        "exec", pod, "-n", product_namespace.namespace, "-c", "ray-train", "--", "sh", "-c", RANKS
    )
    return int(answer)


def train_over_pods(
    product_namespace: ProductNamespace,
    name: str,
    *,
    ranks_of_pod: int,
    first: Mapping[str, int],
    resumed: Mapping[str, int],
    seconds: float = 600,
) -> list[dict[str, Any]]:
    """The metrics of two steps of a job: one with the fields `first` of spec.trainer, one after a suspension with those
    of `resumed`. Weights changed in both, and the engines had them.

    `seconds`: of each step, with the start of its attempt.
    """
    job = product_namespace.manifest(name, {"steps": 2, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["algorithm"]["dynamicFilter"] = True  # else both groups of a step may have equal rewards, so no update
    job["spec"] |= {"colocate": False}
    job["spec"]["trainer"] |= {"replicas": PODS, "cpuRanks": ranks_of_pod, **first}
    job["spec"]["rollout"] |= {"engines": 2, "resources": job["spec"]["trainer"]["resources"]}
    job["spec"]["checkpoint"]["every"] = 1
    name = product_namespace.apply(job)

    product_namespace.wait("a first step", product_namespace.rows, seconds)
    labels = f"swerl.dev/job={name},swerl.dev/attempt=1"
    trainers, engines = (product_namespace.objects(f"{labels},ray.io/group={g}", "pods") for g in ("train", "engine"))
    assert (len(trainers), len(engines)) == (PODS, 2)
    assert [ranks_in(product_namespace, pod) for pod in trainers] == [ranks_of_pod] * PODS
    product_namespace.patch(name, {"suspend": True})
    product_namespace.wait("end of attempt 1", lambda: not product_namespace.objects(labels, "pods"), 180)
    product_namespace.patch(name, {"suspend": False, "trainer": dict(resumed)})
    product_namespace.finish(name, seconds)

    steps = product_namespace.rows()
    assert all(row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4 for row in steps), json.dumps(steps, indent=1)
    assert [row["rollout/weight_mismatches"] for row in steps] == [0, 0]
    assert all(row["train/new_updates"] > 0 for row in steps), json.dumps(steps, indent=1)
    return steps
