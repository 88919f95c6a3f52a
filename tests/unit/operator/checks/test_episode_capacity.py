"""A job none of whose episodes could ever have a sandbox or a grading is refused; one that must only wait is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from swerl_api import GradingSpec, SandboxSpec
from swerl_operator.checks.episode_capacity import episode_capacity_problems
from swerl_operator.context import OperatorContext, Settings
from swerl_operator.jobs.reconciler import JobReconciler
from swerl_operator.metrics import Metrics

from tests.unit.operator.conftest import Spec

Object = dict[str, Any]
BIG = {"requests": {"memory": "64Gi"}}


def node(cpu: str = "4", memory: str = "16Gi", **extra: Any) -> Object:
    allocatable = {"cpu": cpu, "memory": memory, "ephemeral-storage": "50Gi", "pods": "110"}
    spec = {"taints": extra.pop("taints", [])}
    return {"metadata": {"labels": extra.pop("labels", {})}, "spec": spec, "status": {"allocatable": allocatable}}


@dataclass
class Api:
    """A cluster of these nodes and objects; whatever else a job names is there."""

    nodes: list[Object] = field(default_factory=list)
    kept: dict[tuple[str, str], Object] = field(default_factory=dict)

    async def find(self, api_version: str, resource: str, namespace: str | None, name: str) -> Object | None:
        absent = resource in ("pods", "rayclusters", "runtimeclasses")
        return self.kept.get((resource, name), None if absent else {"metadata": {"name": name}})

    async def list(self, api_version: str, resource: str, namespace: str | None, *, labels: str = "") -> list[Object]:
        return self.nodes if resource == "nodes" else []

    async def request(self, method: str, url: str, **_: Any) -> Object:
        return {"resources": [{"name": "rayclusters"}]}

    async def patch(
        self, api_version: str, resource: str, namespace: str | None, name: str, body: Object, *, subresource: str = ""
    ) -> Object:
        kept = self.kept[resource, name]
        kept |= {part: {**kept.get(part, {}), **body[part]} for part in ("status", "data") if part in body}
        return kept

    async def create(self, resource: str, body: Object) -> Object:
        return self.kept.setdefault((resource, body["metadata"]["name"]), body)

    async def delete(self, *_: Any, **__: Any) -> bool:
        return False


async def problems(
    *nodes: Object, sandbox: Object | None = None, grading: Object | None = None, runtime: Object | None = None,
    **settings: str,
) -> list[str]:  # fmt: skip
    """What is wrong with a job of these sections."""
    api: Any = Api(kept={("runtimeclasses", "gvisor"): runtime} if runtime else {})
    sandbox_spec, grading_spec = SandboxSpec.model_validate(sandbox or {}), GradingSpec.model_validate(grading or {})
    found = await episode_capacity_problems(api, Settings(**settings), sandbox_spec, grading_spec, nodes)  # type: ignore[arg-type]
    return [f"{problem.reason}: {problem.message}" for problem in found]


async def test_defaults_fit_a_small_node() -> None:
    assert await problems(node("1", "2Gi")) == []


@pytest.mark.parametrize("kind", ["sandbox", "grading"])
async def test_pod_that_is_too_large_is_reported_with_field_request_and_fix(kind: str) -> None:
    (found,) = await problems(node(), node(memory="32Gi"), **{kind: {"resources": BIG}})  # type: ignore[arg-type]
    assert found.startswith(f"InsufficientResources: not even one {kind} Pod with ")
    assert "64.0 GiB memory fits one of the 2 node(s) that accept it, even when these are empty" in found
    assert "32.0 GiB memory)" in found and found.endswith(f"; lower spec.{kind}.resources or add nodes")


async def test_sandbox_and_grading_problems_are_reported_together() -> None:
    found = await problems(node(), sandbox={"resources": BIG}, grading={"resources": BIG})
    assert ["spec.sandbox.resources" in found[0], "spec.grading.resources" in found[1], len(found)] == [True, True, 2]


async def test_one_node_that_fits_is_enough() -> None:
    wide = {"resources": {"requests": {"cpu": "4", "memory": "16Gi"}}, "maxConcurrent": 500}
    assert await problems(node("1"), node("4"), sandbox=wide) == []


async def test_all_resources_must_fit_the_same_node() -> None:
    resources = {"resources": {"requests": {"cpu": "4", "memory": "16Gi"}}}
    (found,) = await problems(node("4", "8Gi"), node("2", "16Gi"), sandbox=resources)
    assert "largest allocatable: 4 cpu" in found


async def test_sandbox_is_scheduled_by_its_requests_and_a_grading_by_its_limits() -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "8", "memory": "1Gi"}}
    assert await problems(node(), sandbox={"resources": resources}) == []
    (found,) = await problems(node(), grading={"resources": resources})
    assert "grading Pod with 8 cpu, 1.0 GiB memory" in found


async def test_limit_without_request_counts_as_request() -> None:
    (found,) = await problems(node(), sandbox={"resources": {"limits": {"nvidia.com/gpu": "1"}}})
    assert "1 nvidia.com/gpu" in found and "0 nvidia.com/gpu" in found


async def test_both_kinds_need_a_node_that_accepts_sandboxes() -> None:
    tainted = node(taints=[{"key": "sandboxes", "effect": "NoSchedule"}], labels={"pool": "cpu"})
    found = await problems(tainted)
    assert [text.partition(";")[0] for text in found] == [
        f"InsufficientResources: none of the 1 nodes accepts {kind} Pods (node ? has taint sandboxes:NoSchedule)"
        for kind in ("sandbox", "grading")
    ]
    assert "spec.sandbox.nodeSelector" in found[0]
    placement = {"tolerations": [{"key": "sandboxes", "operator": "Exists"}], "nodeSelector": {"pool": "cpu"}}
    assert await problems(tainted, sandbox=placement) == []
    larger = node(memory="64Gi")
    assert len(await problems(tainted, larger, sandbox=placement | {"resources": BIG})) == 1


async def test_scheduling_and_overhead_of_the_runtime_class_count() -> None:
    sandbox = {"runtimeClassName": "gvisor", "resources": {"requests": {"memory": "16Gi"}}}
    scheduling = {"nodeSelector": {"runtime": "gvisor"}, "tolerations": [{"key": "gvisor", "operator": "Exists"}]}
    tainted_node = node(taints=[{"key": "gvisor", "effect": "NoSchedule"}], labels={"runtime": "gvisor"})
    assert await problems(tainted_node, sandbox=sandbox, runtime={"scheduling": scheduling}) == []
    elsewhere = await problems(node(), sandbox=sandbox, runtime={"scheduling": scheduling})
    assert len(elsewhere) == 2 and all("RuntimeClass 'gvisor'" in text for text in elsewhere)
    overhead = {"scheduling": scheduling, "overhead": {"podFixed": {"memory": "1Gi"}}}
    (found,) = await problems(tainted_node, sandbox=sandbox, runtime=overhead)
    assert "17.0 GiB memory" in found


async def test_operator_settings_of_sandboxes_count() -> None:
    pool = node(labels={"pool": "cpu"})
    overrides = '{"nodeSelector": {"pool": "other"}}'
    (found,) = await problems(pool, sandbox_pod_overrides=overrides)
    assert "accepts sandbox Pods" in found


async def test_invalid_quantity_is_reported_with_its_field() -> None:
    assert await problems(node(), sandbox={"resources": {"requests": {"cpu": "lots"}}}) == [
        "InvalidSpec: spec.sandbox.resources: not a Kubernetes quantity: 'lots'"
    ]


async def reconciled(spec: Spec, check: str, labels: dict[str, str] | None = None) -> Object:
    """The status of a job after its first reconciliations on a cluster of one node with `labels`."""
    metadata = {"name": "demo", "namespace": "ns", "uid": "uid-1", "generation": 1, "resourceVersion": "1"}
    job = {"metadata": metadata, "spec": spec}
    api: Any = Api([node("8", "64Gi", labels=labels or {})], {("swerljobs", "demo"): job})
    reconciler = JobReconciler(OperatorContext(Settings(capacity_check=check), api, Metrics()), None)  # type: ignore[arg-type]
    for _ in range(2):
        await reconciler.reconcile(("ns", "demo"))
    status: Object = job["status"]
    return status


@pytest.mark.parametrize("kind", ["sandbox", "grading"])
async def test_job_is_blocked_before_it_takes_resources(spec: Spec, kind: str) -> None:
    status = await reconciled(spec | {kind: {"resources": {"requests": {"cpu": "64"}}}}, "enforce")
    (condition,) = [each for each in status["conditions"] if each["type"] == "Validated"]
    assert (status["phase"], condition["reason"]) == ("Blocked", "InsufficientResources")
    assert f"spec.{kind}.resources" in condition["message"]
    assert (await reconciled(spec, "enforce"))["phase"] == "Starting"


@pytest.mark.parametrize(
    ("check", "labels"),
    [("warn", {}), ("auto", {"cloud.google.com/gke-nodepool": "cpu"}), ("auto", {"karpenter.sh/nodepool": "general"})],
)
async def test_missing_nodes_only_warn_where_they_may_be_added(spec: Spec, check: str, labels: dict[str, str]) -> None:
    status = await reconciled(spec | {"sandbox": {"resources": {"requests": {"cpu": "64"}}}}, check, labels)
    (condition,) = [each for each in status["conditions"] if each["type"] == "CapacityMatched"]
    assert (status["phase"], condition["status"], condition["reason"]) == ("Starting", "False", "InsufficientResources")
    assert "spec.sandbox.resources" in condition["message"] and f"capacityCheck is {check!r}" in condition["message"]


async def test_auto_blocks_where_no_node_belongs_to_a_pool(spec: Spec) -> None:
    status = await reconciled(spec | {"sandbox": {"resources": {"requests": {"cpu": "64"}}}}, "auto")
    assert status["phase"] == "Blocked"


async def test_invalid_quantity_blocks_also_where_missing_nodes_warn(spec: Spec) -> None:
    status = await reconciled(spec | {"sandbox": {"resources": {"requests": {"cpu": "lots"}}}}, "warn")
    assert status["phase"] == "Blocked"


async def test_check_can_be_switched_off(spec: Spec) -> None:
    status = await reconciled(spec | {"sandbox": {"resources": {"requests": {"cpu": "64"}}}}, "off")
    assert status["phase"] == "Starting"
