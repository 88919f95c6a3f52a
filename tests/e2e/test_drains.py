"""One job on the real cluster whose node is drained, as for an upgrade of nodes: first of the engine's Pod, then of the
trainer's. The job says so and goes on; every group is trained once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.product_namespace import ProductNamespace
from tests.e2e.trained_groups import groups, task_order

STEPS = 8
PROMPTS = 2  # of a step
NODES = "--selector=kubernetes.io/os"
EVICTED = "leaves its node: EvictionByEvictionAPI"


def drain(product_namespace: ProductNamespace, labels: str) -> str:
    """Evict the one Pod with `labels` by a drain of every node, until it is gone; its name."""
    kubectl = product_namespace.cluster.kubectl
    (pod,) = product_namespace.objects(labels, "pods")
    try:
        kubectl("drain", NODES, f"--pod-selector={labels}", "--delete-emptydir-data", "--force", "--timeout=60s")
    finally:
        kubectl("uncordon", NODES)
    return pod.removeprefix("pod/")


def step_after(product_namespace: ProductNamespace, name: str, figure: str) -> dict[str, Any]:
    """The first step with a positive `figure`, once there is a checkpoint of it."""

    def saved() -> dict[str, Any] | None:
        found = next((row for row in product_namespace.rows() if row[figure]), None)
        folder = product_namespace.output / name / "checkpoints"
        return found if found and (folder / f"step-{found['step']:07}" / "COMPLETE").is_file() else None

    return dict(product_namespace.wait(f"checkpoint of a step with {figure}", saved, 600))


@pytest.mark.timeout(1500)
def test_job_trains_through_drains_of_engine_and_trainer(product_namespace: ProductNamespace) -> None:
    job = product_namespace.manifest("drains", {"steps": STEPS, "promptsPerStep": PROMPTS, "groupSize": 4})
    job["spec"] |= {"colocate": False}
    job["spec"]["rollout"]["resources"] = job["spec"]["trainer"]["resources"]
    job["spec"]["checkpoint"] |= {"every": 1, "keepLast": STEPS}
    name = product_namespace.apply(job)
    labels = f"swerl.dev/job={name},swerl.dev/attempt=1"

    step_after(product_namespace, name, "step")
    engine = drain(product_namespace, f"{labels},ray.io/group=engine")
    step_after(product_namespace, name, "rollout/engines_replaced")
    assert product_namespace.status(name)["attempt"] == 1, "a drained engine ends no attempt"

    trainer = drain(product_namespace, f"{labels},ray.io/group=train")
    product_namespace.wait("attempt 2", lambda: product_namespace.status(name).get("attempt") == 2, 240)
    status = product_namespace.finish(name, 900)

    assert (status["step"], status["attempt"], status["failures"]) == (STEPS, 2, 1)
    described = product_namespace.cluster.kubectl("describe", "swerl", name, "-n", product_namespace.namespace)
    for shown in ("PodDisrupted", f"Pod {engine} {EVICTED}", f"Pod {trainer} {EVICTED}", "EngineReplaced", "Resumed"):
        assert shown in described, f"{shown} is no Event: {described}"
    rows = product_namespace.rows()
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert [row["attempt"] for row in rows] == sorted(row["attempt"] for row in rows)
    assert {row["attempt"] for row in rows} == {1, 2}
    assert [row["rollout/groups_trained"] for row in rows] == [PROMPTS] * STEPS
    assert all(row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4 for row in rows)
    order = task_order(job)
    expected = {(k, order(k), f"step-{1 + k // PROMPTS:04}") for k in range(PROMPTS * STEPS)}
    assert groups(product_namespace.output / name / "artifacts") == expected
