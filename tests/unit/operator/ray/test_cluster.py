"""Rights of Ray containers."""

from __future__ import annotations

import pytest
from swerl_api import SweRLJobSpec
from swerl_operator.jobs.attempt import Attempt
from swerl_operator.jobs.manifests import cluster_plan
from swerl_operator.ray.cluster import ray_cluster

from tests.unit.operator.conftest import Spec


@pytest.mark.parametrize(
    ("limits", "added"),
    [
        ({}, []),
        ({"rdma/hca_shared": "1"}, ["IPC_LOCK"]),
        ({"vpc.amazonaws.com/efa": "1"}, ["IPC_LOCK"]),
        ({"rdma/hca_shared": 0}, []),
    ],
)
def test_locked_memory_is_for_pods_with_an_rdma_device(spec: Spec, limits: dict[str, str], added: list[str]) -> None:
    spec["trainer"] |= {"gpus": 8, "resources": {"limits": limits}}
    spec["rollout"] = {"gpusPerEngine": 1}
    attempt = Attempt("ns", "demo", "uid-1", 1, SweRLJobSpec.model_validate(spec))
    groups = ray_cluster(cluster_plan(attempt))["spec"]["workerGroupSpecs"]
    template = next(group["template"] for group in groups if group["groupName"] == "train")
    capabilities = template["spec"]["containers"][0]["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"] and capabilities.get("add", []) == added
