"""Pods that admission refuses: within a minute a condition has the API server's words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace
from .evaluations import KIND, evaluation, repository, task, tasks, tokenizer

__all__ = ["evaluation", "repository", "task", "tasks", "tokenizer"]

LARGE = {"requests": {"cpu": "10m", "memory": "700Mi"}, "limits": {"memory": "700Mi"}}


@pytest.fixture(scope="module")
def limit_range(kube: JobNamespace) -> Iterator[str]:
    """No container of the namespace may have more than 600 MiB."""
    limits = {"limits": [{"type": "Container", "max": {"memory": "600Mi"}}]}
    metadata = {"name": "small", "namespace": kube.namespace}
    kube.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": limits})
    yield "maximum memory usage per Container is 600Mi"
    kube.kubectl("delete", "limitrange", "small")


def test_refused_ray_pod_is_a_condition_of_the_job(
    kube: JobNamespace, operator: Operator, job: Body, limit_range: str
) -> None:
    job["spec"]["trainer"]["headResources"] = LARGE
    kube.apply(job)
    name = job["metadata"]["name"]
    kube.until_condition(name, "ImagesReady", "ImagesPulled", 120)
    found = kube.until_condition(name, "ClusterReady", "PodRefused", 60)
    assert limit_range in found["message"] and f"RayCluster {name}-1" in found["message"]
    assert kube.status(name)["phase"] == "Blocked"


def test_refused_shard_is_a_condition_of_the_evaluation(
    kube: JobNamespace, operator: Operator, tasks: list[str], tokenizer: None, evaluation: Body, limit_range: str
) -> None:
    evaluation["spec"]["resources"] = LARGE
    kube.apply(evaluation)
    name = evaluation["metadata"]["name"]
    found = kube.until_condition(name, "Running", "PodRefused", 120, kind=KIND)
    assert limit_range in found["message"] and "Job" in found["message"]
