"""The user of Ray Pods, preflights, shards and readers: root only where a volume or a device needs it."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.jobs.output import reader_pod
from swerl_operator.evals import manifests
from swerl_operator.jobs.manifests import attempt_preflight, cluster_plan
from swerl_operator.ray.cluster import ray_cluster

from tests.unit.operator.conftest import MakeAttempt, Spec
from tests.unit.operator.evals.conftest import make_evaluation
from tests.unit.operator.evals.conftest import spec as evaluation_spec

Json = dict[str, Any]
HOST_PATH = {"volume": {"hostPath": {"path": "/runs"}}}
RDMA = {"image": "t", "gpus": 8, "resources": {"limits": {"rdma/hca_shared": "1"}}}
LIBRARY = {"volumes": [{"name": "lib", "hostPath": {"path": "/opt/lib"}}]}
SIDECAR = {"name": "rx", "image": "daemon:1", "capabilities": ["NET_ADMIN"]}

__all__ = ["evaluation_spec", "make_evaluation"]


def pods(make_attempt: MakeAttempt, **changes: Any) -> list[Json]:
    """Specs of the attempt's preflight and Ray Pods."""
    attempt = make_attempt(**changes)
    spec = ray_cluster(cluster_plan(attempt))["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return [attempt_preflight(attempt)["spec"], *(group["template"]["spec"] for group in groups)]


@pytest.mark.parametrize(
    ("changes", "user"),
    [
        ({}, 1000),
        ({"checkpoint": HOST_PATH}, 0),
        ({"trainer": RDMA, "rollout": {"gpusPerEngine": 1}}, 0),
        ({"trainer": {"image": "t", "podTemplate": LIBRARY}}, 0),
        ({"trainer": {"image": "t", "runAsUser": 0}}, 0),
        ({"trainer": {"image": "t", "runAsUser": 3000}, "checkpoint": HOST_PATH}, 3000),
    ],
)
def test_all_pods_of_an_attempt_have_one_user(make_attempt: MakeAttempt, changes: Json, user: int) -> None:
    found = [pod["securityContext"] for pod in pods(make_attempt, **changes)]
    assert len(found) == 4 and all(security == found[0] for security in found)
    assert (found[0]["runAsUser"], found[0]["runAsGroup"]) == (user, user)
    assert (found[0].get("runAsNonRoot"), found[0].get("fsGroup")) == ((True, user) if user else (None, None))


def test_shards_merge_and_preflight_of_an_evaluation_have_one_user(evaluation_spec: Spec, make_evaluation: Any) -> None:
    for output, user in ((evaluation_spec["output"], 1000), (HOST_PATH, 0)):
        evaluation = make_evaluation(evaluation_spec, output=output)
        jobs = [manifests.shards_job(evaluation), manifests.merge_job(evaluation)]
        found = [job["spec"]["template"]["spec"] for job in jobs]
        found.append(manifests.evaluation_preflight(evaluation)["spec"])
        assert [pod["securityContext"]["runAsUser"] for pod in found] == [user] * 3


def test_containers_with_added_capabilities_run_as_root(make_attempt: MakeAttempt) -> None:
    trainer = {"image": "t", "podTemplate": {"initContainers": [SIDECAR, {"name": "plain", "image": "p:1"}]}}
    [_, _, train, _] = pods(make_attempt, trainer=trainer)
    users = {one["name"]: one["securityContext"].get("runAsUser") for one in train["initContainers"]}
    assert users == {"copy-model": None, "rx": 0, "plain": None, "wait-for-head": None}
    assert train["securityContext"]["runAsUser"] == 1000


def test_reader_of_the_output_has_the_jobs_user(spec: Spec) -> None:
    metadata = {"name": "demo", "namespace": "ns"}
    for changes, user in (({}, 1000), ({"checkpoint": HOST_PATH}, 0), ({"trainer": {"image": "t", "runAsUser": 7}}, 7)):
        pod = reader_pod({"metadata": metadata, "spec": spec | changes})
        assert pod["spec"]["securityContext"]["runAsUser"] == user
