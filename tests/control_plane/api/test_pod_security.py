"""Pods of jobs, evaluations and the chart in namespaces with Pod Security `restricted` and `baseline`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.jobs.output import reader_pod
from swerl_api import SweEvalSpec, SweRLJobSpec
from swerl_operator.evals import manifests
from swerl_operator.evals.evaluation import ServedEvaluation, served_model
from swerl_operator.jobs.attempt import Attempt
from swerl_operator.jobs.manifests import attempt_preflight, cluster_plan
from swerl_operator.ray.cluster import ray_cluster

from tests.unit.charts.templates import manifests as chart_objects

from .conftest import Kubectl

Json = dict[str, Any]
Create = Callable[[Json], str]
CLAIM = {"persistentVolumeClaim": {"claimName": "runs"}}
TASKS = {"source": {"image": {"reference": "data:1", "path": "/tasks"}}}
JOB: Json = {
    "model": {"source": {"image": {"reference": "data:1", "path": "/model"}}},
    "tasks": TASKS,
    "trainer": {"image": "trainer:1"},
    "checkpoint": {"volume": CLAIM},
}
GPUS: Json = {"trainer": {"image": "trainer:1", "gpus": 8}, "rollout": {"gpusPerEngine": 8}}
RDMA = {"trainer": {"image": "trainer:1", "gpus": 8, "resources": {"limits": {"rdma/hca_shared": "1"}}}}
EVALUATION: Json = {
    "model": {"source": {"image": {"reference": "data:1", "path": "/model"}}},
    "tasks": TASKS,
    "image": "trainer:1",
    "output": {"volume": CLAIM},
    "rollout": {"image": "trainer:1"},
}
LEVELS = ("restricted", "baseline")


@pytest.fixture(scope="module")
def create(kubectl: Kubectl, namespace: str) -> Iterator[Callable[[str], Create]]:
    """Creates a Pod in a namespace of a level, in a dry run on the server; the answer is what the server says."""
    names = {level: f"{namespace}-{level}" for level in LEVELS}
    for level, name in names.items():
        labels = {"pod-security.kubernetes.io/enforce": level}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        assert kubectl("create", "-f", "-", stdin=json.dumps(body)).returncode == 0

    def of_level(level: str) -> Create:
        def create(spec: Json) -> str:
            spec = {key: value for key, value in spec.items() if key != "serviceAccountName"} | {
                "automountServiceAccountToken": False  # the accounts do not exist here
            }
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
            done = kubectl("create", "-n", names[level], "--dry-run=server", "-f", "-", stdin=json.dumps(body))
            return done.stdout + done.stderr

        return create

    yield of_level
    kubectl("delete", "namespace", *names.values(), "--wait=false")


def ray_pods(cluster: Json) -> Json:
    """Pod specs by group."""
    workers = {group["groupName"]: group["template"]["spec"] for group in cluster["spec"]["workerGroupSpecs"]}
    return {"head": cluster["spec"]["headGroupSpec"]["template"]["spec"], **workers}


def attempt_of(**changes: Any) -> Attempt:
    return Attempt("ns", "demo", "uid-1", 1, SweRLJobSpec.model_validate(JOB | changes))


def evaluation_of() -> ServedEvaluation:
    spec = SweEvalSpec.model_validate(EVALUATION)
    return ServedEvaluation("ns", "nightly", "uid-1", spec, served_model(spec))


def job_pods(**changes: Any) -> Json:
    """Pod specs of an attempt and of a reader of its output, by name."""
    attempt = attempt_of(**changes)
    reader = reader_pod({"metadata": {"name": "demo", "namespace": "ns"}, "spec": JOB | changes})["spec"]
    preflight = attempt_preflight(attempt)["spec"]
    return ray_pods(ray_cluster(cluster_plan(attempt))) | {"preflight": preflight, "reader": reader}


def evaluation_pods() -> Json:
    evaluation = evaluation_of()
    jobs = {"shards": manifests.shards_job(evaluation, "secret"), "merge": manifests.merge_job(evaluation)}
    found = {name: job["spec"]["template"]["spec"] for name, job in jobs.items()}
    found["preflight"] = manifests.evaluation_preflight(evaluation)["spec"]
    return found | ray_pods(ray_cluster(manifests.engines_plan(evaluation)))


def test_pods_of_a_job_fit_restricted(create: Callable[[str], Create]) -> None:
    found = {name: create("restricted")(spec) for name, spec in job_pods().items()}
    assert found.keys() == {"head", "train", "engine", "preflight", "reader"}
    assert {name: text for name, text in found.items() if "created (server dry run)" not in text} == {}


def test_pods_of_an_evaluation_fit_restricted(create: Callable[[str], Create]) -> None:
    found = {name: create("restricted")(spec) for name, spec in evaluation_pods().items()}
    assert found.keys() == {"head", "engine", "preflight", "shards", "merge"}
    assert {name: text for name, text in found.items() if "created (server dry run)" not in text} == {}


def test_pods_of_the_chart_fit_restricted(create: Callable[[str], Create], tmp_path: Path) -> None:
    values = "{console: {enabled: true, claim: runs}, kuberay: {install: true}}\n"
    found = {
        name: create("restricted")(body["spec"]["template"]["spec"])
        for name, body in chart_objects(tmp_path, values).items()
        if body["kind"] in ("Deployment", "Job")
    }
    deployments = {f"Deployment/demo-{name}" for name in ("operator", "console", "kuberay")}
    assert found.keys() == deployments | {"Job/demo-crd-upgrade"}
    assert {name: text for name, text in found.items() if "created (server dry run)" not in text} == {}


@pytest.mark.parametrize("level", LEVELS)
def test_pods_with_gpus_fit_it_unless_they_lock_memory(create: Callable[[str], Create], level: str) -> None:
    found = {name: create(level)(spec) for name, spec in job_pods(**GPUS).items()}
    assert {name: text for name, text in found.items() if "created (server dry run)" not in text} == {}
    locking = create(level)(job_pods(**(GPUS | RDMA))["train"])
    assert "violates PodSecurity" in locking and "IPC_LOCK" in locking


def test_root_fits_baseline_alone(create: Callable[[str], Create]) -> None:
    root = job_pods(trainer={"image": "trainer:1", "runAsUser": 0})["head"]
    assert "created (server dry run)" in create("baseline")(root)
    assert "violates PodSecurity" in create("restricted")(root)
