"""A SweRLJob over several Pods: ranks of one tensor-parallel group and engines in Pods of their own."""

from __future__ import annotations

import json

from tests.e2e.product_namespace import ProductNamespace


def test_ranks_and_engines_in_pods_of_their_own_train_and_resume(product_namespace: ProductNamespace) -> None:
    job = product_namespace.manifest("pods", {"steps": 2, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["algorithm"]["dynamicFilter"] = True  # else both groups of a step may have equal rewards, so no update
    job["spec"] |= {"colocate": False}
    job["spec"]["trainer"] |= {"replicas": 2, "tensorParallel": 2}
    job["spec"]["rollout"] |= {"engines": 2, "resources": job["spec"]["trainer"]["resources"]}
    job["spec"]["checkpoint"]["every"] = 1
    name = product_namespace.apply(job)

    product_namespace.wait("a first step", product_namespace.rows, 600)
    first = f"swerl.dev/job={name},swerl.dev/attempt=1"
    groups = [f"{first},ray.io/group={group}" for group in ("train", "engine")]
    assert [len(product_namespace.objects(selector, "pods")) for selector in groups] == [2, 2]
    product_namespace.patch(name, {"suspend": True})
    product_namespace.wait("end of attempt 1", lambda: not product_namespace.objects(first, "pods"), 180)
    product_namespace.patch(name, {"suspend": False})
    product_namespace.finish(name, 600)

    steps = product_namespace.rows()
    assert [row["step"] for row in steps] == [1, 2]
    assert all(row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4 for row in steps), json.dumps(steps, indent=1)
    assert [row["rollout/weight_mismatches"] for row in steps] == [0, 0]
    assert all(row["train/new_updates"] > 0 for row in steps), json.dumps(steps, indent=1)
