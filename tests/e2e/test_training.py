"""SweRLJobs that train, on the real cluster: to the end, through the loss of the driver, and away without a trace."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swerl_trainer.rollout.cursor import TaskOrder

from demo.cluster import ROOT
from tests.e2e.product_namespace import ProductNamespace

EPISODE = r"(?P<task>.+)__gg(?P<group>\d+)__i\d+__\d+"
# What those who come from other frameworks look for.
AGENT_FIGURES = {
    f"agent/{name}"
    for name in [
        "turns_mean",
        "turns_sum",
        "tool_calls_mean",
        "tool_calls_sum",
        "model_query_time_sum_mean",
        "env_execution_time_sum_mean",
        "eval_time_mean",
        "agent_run_time_mean",
        "overhead_time_mean",
        "time_per_turn",
        "model_query_time_avg",
        "env_execution_time_avg",
        "model_time_ratio",
        "env_time_ratio",
        "eval_time_ratio",
        "total_time_mean",
        "total_time_max",
        "total_time_min",
    ]
}


def undocumented(row: dict[str, Any]) -> set[str]:
    """Figures of a step that docs/metrics.md does not name."""
    named = re.findall(r"`([a-z_]+/[^`]+)`", (ROOT / "docs" / "metrics.md").read_text())
    patterns = [re.sub(r"<[a-z_]+>", "[^/]+", name) for name in named]
    return {name for name in row if "/" in name and not any(re.fullmatch(each, name) for each in patterns)}


def kill_driver(product_namespace: ProductNamespace, name: str, attempt: int) -> None:
    """kill -9 the driver's process inside the head Pod."""
    selector = f"swerl.dev/job={name},swerl.dev/attempt={attempt},ray.io/node-type=head"
    head = product_namespace.cluster.kubectl(
        "get", "pods", "-n", product_namespace.namespace, "-l", selector, "-o", "name"
    ).strip()
    assert head, f"attempt {attempt} has no head Pod: {json.dumps(product_namespace.status(name), indent=1)}"
    product_namespace.cluster.kubectl(
        "exec", "-n", product_namespace.namespace, head, "--", "pkill", "-9", "-f", "swerl_trainer.driver"
    )


def task_order(job: dict[str, Any]) -> Callable[[int], str]:
    """The task that a run without interruptions takes for its group `k` (from 0)."""
    names = sorted(path.name for path in (ROOT / "tasks" / "train" / "tasks").iterdir())
    order = TaskOrder(len(names), job["spec"]["tasks"]["shuffle"], job["spec"]["tasks"].get("seed", 0))
    return lambda k: names[order.task(k)]


def groups(artifacts: Path) -> set[tuple[int, str, str]]:
    """Number, task and step of every group whose episodes were written."""
    named = ((re.fullmatch(EPISODE, folder.name), folder.parent.name) for folder in artifacts.glob("step-*/*"))
    return {(int(episode["group"]), episode["task"], step) for episode, step in named if episode}


def test_job_trains_through_a_killed_driver_and_cleans_up(product_namespace: ProductNamespace) -> None:
    job = product_namespace.manifest("grpo", {"steps": 3, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["checkpoint"]["every"] = 1
    name = product_namespace.apply(job)

    product_namespace.wait(
        "a second step, so that the first has its checkpoint", lambda: len(product_namespace.rows()) >= 2, 600
    )
    kill_driver(product_namespace, name, attempt=1)
    deadline = time.monotonic() + 60
    product_namespace.wait("second attempt", lambda: product_namespace.status(name).get("attempt") == 2, 60)
    first = f"swerl.dev/job={name},swerl.dev/attempt=1"
    kinds = "pods,jobs,swesandboxes,rayclusters"
    product_namespace.wait(
        "end of attempt 1", lambda: not product_namespace.objects(first, kinds), deadline - time.monotonic()
    )

    status = product_namespace.finish(name, 900)
    steps = product_namespace.rows()
    assert [row["step"] for row in steps] == [1, 2, 3]
    assert {row["attempt"] for row in steps} == {1, 2}
    assert status["step"] == 3
    assert all(row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4 for row in steps)
    for row in steps:
        assert set(row) >= AGENT_FIGURES
        assert not undocumented(row)
    order = task_order(job)
    assert groups(product_namespace.output / name / "artifacts") == {
        (k, order(k), f"step-{1 + k // 2:04}") for k in range(6)
    }

    product_namespace.cluster.kubectl("delete", "swerljob", name, "-n", product_namespace.namespace, "--wait=false")
    product_namespace.wait("clean-up", lambda: not product_namespace.objects(f"swerl.dev/job={name}"), 60)


def test_wrong_tasks_fail_a_job_at_once_with_their_line(product_namespace: ProductNamespace) -> None:
    metadata = {"name": "wrong-tasks", "namespace": product_namespace.namespace}
    data = {"tasks.jsonl": '\n{"instance_id": \n'}
    product_namespace.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    job = product_namespace.manifest("wrong", {"steps": 1, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["tasks"] = {"source": {"configMap": {"name": "wrong-tasks"}}, "format": "jsonl"}
    name = product_namespace.apply(job)
    product_namespace.wait("failure", lambda: product_namespace.condition(name, "Failed").get("status") == "True", 300)
    failed = product_namespace.condition(name, "Failed")
    assert failed["reason"] == "DriverFailed"
    assert "TaskError: /swerl/tasks/tasks.jsonl:2: not valid JSON" in failed["message"]
    assert "Traceback" not in failed["message"]
    assert product_namespace.status(name)["attempt"] == 1
