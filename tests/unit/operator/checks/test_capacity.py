"""A job that could never fit is refused; one that must only wait is not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from swerl_api.quantity import format_quantity, parse_quantity
from swerl_operator.checks.capacity import cluster_capacity_problem
from swerl_operator.jobs.manifests import attempt_preflight, cluster_plan

from tests.unit.operator.conftest import MakeAttempt


def node(cpu: str = "4", memory: str = "16Gi", gpus: int = 0, **extra: Any) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", "nvidia.com/gpu": str(gpus)}
    spec = {"taints": extra.pop("taints", [])}
    return {"metadata": {"labels": extra.pop("labels", {})}, "spec": spec, "status": {"allocatable": allocatable}}


def test_small_job_fits_one_node(make_attempt: MakeAttempt) -> None:
    assert cluster_capacity_problem(cluster_plan(make_attempt()), [node()]) is None


def test_too_much_memory_is_reported_with_field_request_and_largest_node(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(trainer={"image": "t", "resources": {"requests": {"memory": "64Gi"}}})
    problem = cluster_capacity_problem(cluster_plan(attempt), [node(), node(memory="32Gi")])
    assert problem is not None and problem.reason == "InsufficientResources"
    assert "64.0 GiB memory" in problem.message and "32.0 GiB memory" in problem.message
    assert "spec.trainer" in problem.message


def test_gpus_are_counted_over_all_pods(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(trainer={"image": "t", "replicas": 1, "gpus": 4}, rollout={"engines": 2, "gpusPerEngine": 2})
    assert cluster_capacity_problem(cluster_plan(attempt), [node(gpus=8)]) is None
    assert cluster_capacity_problem(cluster_plan(attempt), [node(gpus=7)]) is not None
    assert cluster_capacity_problem(cluster_plan(attempt), [node(gpus=4), node(gpus=2), node(gpus=2)]) is None


def test_taints_and_selectors_count(make_attempt: MakeAttempt) -> None:
    tainted = node(taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], labels={"pool": "gpu"})
    assert cluster_capacity_problem(cluster_plan(make_attempt()), [tainted]) is not None
    trainer = {"image": "t", "tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {"pool": "gpu"}}
    assert cluster_capacity_problem(cluster_plan(make_attempt(trainer=trainer)), [tainted]) is None
    assert cluster_capacity_problem(cluster_plan(make_attempt(trainer=trainer)), [node()]) is not None


def test_selectors_and_sidecars_of_a_template_count(make_attempt: MakeAttempt) -> None:
    beside = {"name": "beside", "image": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}
    template = {"nodeSelector": {"gpu": "h200"}, "initContainers": [beside]}
    trainer = {"image": "t", "podTemplate": template, "resources": {"requests": {"cpu": "2"}}}
    plan = cluster_plan(make_attempt(trainer=trainer))
    problem = cluster_capacity_problem(plan, [node(cpu="64")])
    assert problem is not None and "lacks label gpu=h200" in problem.message
    assert problem.message.endswith("check spec.trainer.nodeSelector and tolerations, and spec.trainer.podTemplate")
    assert cluster_capacity_problem(plan, [node(), node(labels={"gpu": "h200"})]) is not None, "4 CPUs are too few"
    assert cluster_capacity_problem(plan, [node(), node(cpu="6", labels={"gpu": "h200"})]) is None


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "amd.com/gpu"])
def test_gpu_pods_tolerate_the_taint_that_platforms_put_on_gpu_nodes(make_attempt: MakeAttempt, key: str) -> None:
    gpu = node(gpus=4, taints=[{"key": key, "value": "present", "effect": "NoSchedule"}])
    attempt = make_attempt(trainer={"image": "t", "gpus": 2}, rollout={"engines": 1, "gpusPerEngine": 2})
    assert cluster_capacity_problem(cluster_plan(attempt), [node(), gpu]) is None
    preflight = attempt_preflight(attempt)["spec"]["tolerations"]
    assert {"key": key, "operator": "Exists"} in preflight
    without_gpus = make_attempt()
    assert cluster_capacity_problem(cluster_plan(without_gpus), [gpu]) is not None
    assert attempt_preflight(without_gpus)["spec"]["tolerations"] == []


def test_node_takes_one_ray_pod_of_the_host_network(make_attempt: MakeAttempt) -> None:
    plan = cluster_plan(make_attempt(trainer={"image": "t", "replicas": 2, "hostNetwork": True}))
    pods = sum(group.replicas for group in plan.groups)
    assert pods > 2
    assert cluster_capacity_problem(plan, [node() for _ in range(pods)]) is None
    problem = cluster_capacity_problem(plan, [node() for _ in range(pods - 1)])
    assert problem is not None and "1 host port 52365" in problem.message


def test_nodes_that_accept_no_pod_are_named_with_the_cause(make_attempt: MakeAttempt) -> None:
    tainted = node(gpus=8, taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}])
    cordoned, unlabelled = node(), node()
    nodes = [tainted, cordoned, unlabelled, node(labels={"pool": "a"})]
    for number, each in enumerate(nodes):
        each["metadata"]["name"] = f"n{number}"
    cordoned["spec"]["unschedulable"] = True
    trainer = {"image": "t", "gpus": 2, "nodeSelector": {"pool": "a"}}
    tainted["metadata"]["labels"] = {"pool": "a"}
    attempt = make_attempt(trainer=trainer, rollout={"engines": 1, "gpusPerEngine": 1})
    problem = cluster_capacity_problem(cluster_plan(attempt), nodes)
    assert problem is not None
    for cause in ("n0 has taint dedicated=ml:NoSchedule", "n1 is cordoned", "n2 lacks label pool=a"):
        assert cause in problem.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("0", "0"), ("1", "1"), (2, "2"), ("1.5", "1.5"), ("1e3", "1000"), ("1Gi", str(2**30))),
        *(("500m", "0.5"), ("250m", "0.25"), ("1500000n", "0.0015"), ("20u", "0.00002")),
    ],
)
def test_quantities_are_parsed(text: str | int, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


def test_invalid_quantity_raises() -> None:
    with pytest.raises(ValueError, match="lots"):
        parse_quantity("lots")


def test_quantities_are_formatted_with_units() -> None:
    assert format_quantity("memory", Decimal(3 * 2**30)) == "3.0 GiB memory"
    assert format_quantity("cpu", Decimal("64")) == "64 cpu"
