"""A volume of one node is refused where the job needs several."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_operator.checks.volumes import needs_several_nodes, single_node_problem
from swerl_operator.context import OperatorContext, Settings
from swerl_operator.jobs.manifests import cluster_plan
from swerl_operator.jobs.reconciler import JobReconciler
from swerl_operator.metrics import Metrics

from tests.unit.operator.checks.test_capacity import node
from tests.unit.operator.checks.test_episode_capacity import Api
from tests.unit.operator.checks.test_episode_capacity import node as large_node
from tests.unit.operator.conftest import MakeAttempt, Spec


def claim(*modes: str) -> dict[str, Any]:
    return {"metadata": {"name": "runs"}, "spec": {"accessModes": list(modes)}}


def test_job_needs_several_nodes_only_where_none_holds_it_alone(make_attempt: MakeAttempt) -> None:
    plan = cluster_plan(make_attempt(trainer={"image": "t", "gpus": 4}, rollout={"engines": 1, "gpusPerEngine": 4}))
    assert needs_several_nodes(plan, [node(gpus=4), node(gpus=4)])
    assert not needs_several_nodes(plan, [node(gpus=4), node(gpus=8)])
    assert not needs_several_nodes(plan, [node(gpus=4)]), "too few GPUs are reported otherwise"


@pytest.mark.parametrize(
    ("field", "modes", "fine"),
    [
        ("checkpoint.volume", ["ReadWriteOnce"], False),
        ("checkpoint.volume", ["ReadOnlyMany", "ReadWriteOnce"], False),
        ("checkpoint.volume", ["ReadWriteOnce", "ReadWriteMany"], True),
        ("tasks.source", ["ReadOnlyMany"], True),
        ("tasks.source", ["ReadWriteOncePod"], False),
    ],
)
def test_access_modes_decide(field: str, modes: list[str], fine: bool) -> None:
    problem = single_node_problem(field, claim(*modes))
    assert (problem is None) == fine
    if problem is not None:
        assert f"'runs' of spec.{field} is {', '.join(modes)}" in problem.message and "ReadWriteMany" in problem.message


@pytest.mark.parametrize(
    ("check", "modes", "phase"),
    [
        ("auto", ["ReadWriteOnce"], "Blocked"),
        ("warn", ["ReadWriteOnce"], "Blocked"),
        ("off", ["ReadWriteOnce"], "Starting"),
        ("auto", ["ReadWriteMany"], "Starting"),
    ],
)
async def test_volume_of_one_node_blocks_also_where_nodes_may_be_added(
    spec: Spec, check: str, modes: list[str], phase: str
) -> None:
    """Two nodes of a pool, each with room for one of the Ray Pods."""
    spec |= {"trainer": {"image": "t", "resources": {"requests": {"cpu": "5"}}}}
    spec |= {"rollout": {"engines": 1, "resources": {"requests": {"cpu": "5"}}}}
    metadata = {"name": "demo", "namespace": "ns", "uid": "uid-1", "generation": 1, "resourceVersion": "1"}
    job: dict[str, Any] = {"metadata": metadata, "spec": spec}
    pool = {"cloud.google.com/gke-nodepool": "gpu"}
    kept = {("swerljobs", "demo"): job, ("persistentvolumeclaims", "runs"): claim(*modes)}
    kept["persistentvolumeclaims", "tasks"] = claim("ReadOnlyMany")
    api: Any = Api([large_node("8", "64Gi", labels=pool), large_node("8", "64Gi", labels=pool)], kept)
    reconciler = JobReconciler(OperatorContext(Settings(capacity_check=check), api, Metrics()), None)  # type: ignore[arg-type]
    for _ in range(2):
        await reconciler.reconcile(("ns", "demo"))
    (condition,) = [each for each in job["status"]["conditions"] if each["type"] == "Validated"]
    assert job["status"]["phase"] == phase
    assert (condition["reason"] == "VolumeNotShared") == (phase == "Blocked")
