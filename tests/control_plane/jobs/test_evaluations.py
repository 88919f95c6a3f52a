"""SweEvals on the real cluster: shards against a scripted engine in a Pod, real sandboxes, real grading."""

from __future__ import annotations

import json
from pathlib import Path

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace
from .evaluations import (
    KIND,
    SAMPLES,
    SHARDS,
    EngineInAPod,
    engine,
    evaluation,
    objects_of,
    repository,
    results,
    task,
    tasks,
    tokenizer,
    valid_samples,
    wait_until_complete,
)

__all__ = ["engine", "evaluation", "repository", "task", "tasks", "tokenizer"]


def test_shards_survive_a_killed_pod_and_run_nothing_twice(
    kube: JobNamespace, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"] |= {"samples": SAMPLES, "shards": SHARDS, "workers": 1}
    kube.apply(evaluation)
    kube.until(lambda: results(kube, name), lambda lines: len(lines) > 0, 300)
    valid = valid_samples(results(kube, name))
    first = f"swerl.dev/evaluation={name},batch.kubernetes.io/job-completion-index=0"
    kube.kubectl("delete", "pods", "-l", first, "--grace-period=0", "--force")
    status = wait_until_complete(kube, name)

    assert (status["total"], status["done"], status["resolved"], status["shardsDone"]) == (4, 4, 2, 2)
    assert (status["rate"], status["passAtK"]) == (0.5, {"1": 0.5, "2": 1.0})
    assert valid_samples(results(kube, name)) == {(task, sample): 1 for task in tasks for sample in range(SAMPLES)}
    sample_counts = engine.sample_counts()
    assert all(sample_counts[f"{task}-{sample}/{task}"] == 1 for task, sample in valid)

    folder = Path("/tmp") / kube.namespace / name
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["resolved"], summary["errors"]) == (2, 0)
    predictions = json.loads((folder / "preds.json").read_text())
    assert set(predictions) == set(tasks)
    assert all("min(high" in row["model_patch"] for row in predictions.values())
    kube.until(lambda: objects_of(kube, name), lambda left: left == [], 90)
    header, row = kube.kubectl("get", KIND, name).splitlines()
    assert header.split() == ["NAME", "PHASE", "DONE", "RESOLVED", "RATE", "ERRORS", "REASON", "AGE"]
    assert row.split()[1:6] == ["Complete", "4/4", "2", "0.5", "0"]
