"""A volume of one node is refused where the job needs several."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_operator.checks.volumes import needs_several_nodes, single_node_problem
from swerl_operator.jobs.manifests import cluster_plan

from tests.unit.operator.checks.test_capacity import node
from tests.unit.operator.conftest import MakeAttempt


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
