"""`swerl validate` and the nodes: the operator's words, its rule for missing nodes, and rights that are missing."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.jobs.capacity import capacity_check_of, capacity_faults, shortage_faults
from swerl_api import SweRLJobSpec

from .api_server import NAMESPACE, api

BIG = {"requests": {"memory": "64Gi"}}
POOL = {"cloud.google.com/gke-nodepool": "gpu"}


def job(**changes: Any) -> SweRLJobSpec:
    source = {"source": {"configMap": {"name": "data"}}}
    checkpoint = {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}}
    fields = {"model": source, "tasks": source, "trainer": {"image": "t"}, "checkpoint": checkpoint}
    return SweRLJobSpec.model_validate(fields | changes)


def node(cpu: str = "8", memory: str = "32Gi", labels: dict[str, str] | None = None) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, "ephemeral-storage": "50Gi", "pods": "110"}
    return {"metadata": {"name": "n", "labels": labels or {}}, "spec": {}, "status": {"allocatable": allocatable}}


def deployment(*arguments: str) -> dict[str, Any]:
    container = {"name": "operator", "args": ["--job-workers=4", *arguments]}
    return {"metadata": {"name": "o"}, "spec": {"template": {"spec": {"containers": [container]}}}}


def test_job_that_fits_has_no_fault() -> None:
    assert shortage_faults(job(), [node()], "enforce") == []


def test_pods_that_do_not_fit_are_named_with_field_request_and_node() -> None:
    spec = job(trainer={"image": "t", "resources": BIG}, grading={"resources": BIG})
    train, grading = (fault.as_text() for fault in shortage_faults(spec, [node()], "enforce"))
    assert train == (
        "spec.trainer: 1 train Pod(s) with 0.2 cpu, 64.0 GiB memory each do not fit, with the job's other Pods, on the"
        " 1 node(s) that accept them, even if empty (largest allocatable: 8 cpu, 32.0 GiB memory); lower spec.trainer"
        " or add nodes (the operator's capacityCheck is 'enforce')"
    )
    assert grading.startswith("spec.grading.resources: not even one grading Pod with ")


@pytest.mark.parametrize(
    ("check", "labels", "level"),
    [("enforce", POOL, "error"), ("warn", {}, "warning"), ("auto", POOL, "warning"), ("auto", {}, "error")],
)
def test_shortage_only_warns_where_nodes_may_be_added(check: str, labels: dict[str, str], level: str) -> None:
    (fault,) = shortage_faults(job(sandbox={"resources": BIG}), [node(labels=labels)], check)
    assert fault.level == level and f"capacityCheck is {check!r}" in fault.remedy
    assert ("wait for nodes" in fault.remedy) == (level == "warning")


def test_overhead_of_the_runtime_class_counts() -> None:
    spec = job(sandbox={"runtimeClassName": "gvisor", "resources": {"requests": {"memory": "32Gi"}}})
    assert shortage_faults(spec, [node()], "enforce") == []
    runtime = {"overhead": {"podFixed": {"memory": "1Gi"}}}
    assert [fault.field for fault in shortage_faults(spec, [node()], "enforce", runtime)] == ["spec.sandbox.resources"]


@pytest.mark.parametrize(
    ("arguments", "check"),
    [(("--capacity-check=warn",), "warn"), (("--capacity-check=off",), "off"), ((), "auto")],
)
def test_check_is_that_of_the_operator(arguments: tuple[str, ...], check: str) -> None:
    elsewhere = deployment("--namespaces=others", "--capacity-check=enforce")
    assert capacity_check_of([elsewhere, deployment("--namespaces=mine,runs", *arguments)], NAMESPACE) == check
    assert capacity_check_of([elsewhere], NAMESPACE) == "auto"


@pytest.mark.parametrize(("check", "levels"), [("warn", ["warning"]), ("enforce", ["error"]), ("off", [])])
async def test_operator_decides_what_a_shortage_is(check: str, levels: list[str]) -> None:
    async with api({"deployments": [deployment(f"--capacity-check={check}")]}) as client:
        faults, unchecked = await capacity_faults(client, NAMESPACE, job(sandbox={"resources": BIG}), [node()])
    assert [fault.level for fault in faults] == levels
    assert unchecked == ([] if levels else ["capacity: the operator's capacityCheck is 'off'"])


async def test_missing_rights_are_said() -> None:
    async with api({}) as client:
        assert await capacity_faults(client, NAMESPACE, job(), None) == (
            [],
            ["capacity: you may not list nodes; the operator checks it before it creates Pods"],
        )
        faults, unchecked = await capacity_faults(client, NAMESPACE, job(sandbox={"resources": BIG}), [node()])
    assert [fault.level for fault in faults] == ["error"]
    assert unchecked == ["the operator's capacityCheck: you may not list Deployments; it is taken for 'auto'"]
