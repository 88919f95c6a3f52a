"""Rights of Ray containers, and where the dashboard listens."""

from __future__ import annotations

import subprocess

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


@pytest.mark.parametrize(("address", "host"), [("10.244.0.7", "0.0.0.0"), ("fd73::7", "::")])
def test_dashboard_listens_on_the_family_of_the_pods_address(spec: Spec, address: str, host: str) -> None:
    """KubeRay puts the value into a command of bash, as here."""
    attempt = Attempt("ns", "demo", "uid-1", 1, SweRLJobSpec.model_validate(spec))
    head = ray_cluster(cluster_plan(attempt))["spec"]["headGroupSpec"]
    fields = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in head["template"]["spec"]["containers"][0]["env"]
        if "fieldRef" in each.get("valueFrom", {})
    }
    assert list(fields.values()) == ["status.podIP"]
    command = f"echo --dashboard-host={head['rayStartParams']['dashboard-host']} "
    environment = dict.fromkeys(fields, address)
    done = subprocess.run(["/bin/bash", "-c", "--", command], env=environment, capture_output=True, text=True)
    assert done.stdout == f"--dashboard-host={host}\n" and not done.stderr
