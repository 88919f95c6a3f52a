"""A SweRLJob over several Pods: two ranks in each trainer Pod, engines in Pods of their own."""

from __future__ import annotations

import json

import pytest

from tests.e2e.product_namespace import ProductNamespace

RANKS = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^ray::Train[R]ank'"  # not the shell that counts


def ranks_in(product_namespace: ProductNamespace, pod: str) -> int:
    """Processes of training ranks in a Pod, `pod/<name>`."""
    answer = product_namespace.cluster.kubectl(
        "exec", pod, "-n", product_namespace.namespace, "-c", "ray-train", "--", "sh", "-c", RANKS
    )
    return int(answer)


@pytest.mark.timeout(1500)
def test_four_ranks_and_two_engines_train_over_pods_and_resume_in_another_layout(
    product_namespace: ProductNamespace,
) -> None:
    """Tensor x pipeline at first, tensor x data after the resumption; stages and copies are in different Pods."""
    job = product_namespace.manifest("pods", {"steps": 2, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["algorithm"]["dynamicFilter"] = True  # else both groups of a step may have equal rewards, so no update
    job["spec"] |= {"colocate": False}
    job["spec"]["trainer"] |= {"replicas": 2, "cpuRanks": 2, "tensorParallel": 2, "pipelineParallel": 2}
    job["spec"]["rollout"] |= {"engines": 2, "resources": job["spec"]["trainer"]["resources"]}
    job["spec"]["checkpoint"]["every"] = 1
    name = product_namespace.apply(job)

    product_namespace.wait("a first step", product_namespace.rows, 600)
    first = f"swerl.dev/job={name},swerl.dev/attempt=1"
    trainers, engines = (product_namespace.objects(f"{first},ray.io/group={g}", "pods") for g in ("train", "engine"))
    assert (len(trainers), len(engines)) == (2, 2)
    assert [ranks_in(product_namespace, pod) for pod in trainers] == [2, 2]
    product_namespace.patch(name, {"suspend": True})
    product_namespace.wait("end of attempt 1", lambda: not product_namespace.objects(first, "pods"), 180)
    product_namespace.patch(name, {"suspend": False, "trainer": {"pipelineParallel": 1}})
    product_namespace.finish(name, 600)

    steps = product_namespace.rows()
    assert [row["step"] for row in steps] == [1, 2]
    assert all(row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4 for row in steps), json.dumps(steps, indent=1)
    assert [row["rollout/weight_mismatches"] for row in steps] == [0, 0]
    assert all(row["train/new_updates"] > 0 for row in steps), json.dumps(steps, indent=1)
