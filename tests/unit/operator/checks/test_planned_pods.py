"""The Pods that `swerl_plan` derives from a spec are, for the scheduler, those that the operator creates."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_api import SandboxSpec
from swerl_operator.checks.capacity import pod_groups
from swerl_operator.checks.episode_capacity import sandbox_pod_spec
from swerl_operator.jobs.manifests import cluster_plan
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_plan.capacity import HOST_PORT, KUBERAY_INIT, PodGroup, pod_requests
from swerl_plan.pods import ray_pod_groups, sandbox_pod_size

from ..conftest import MakeAttempt

BESIDE = {"name": "beside", "image": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}
BEFORE = {"name": "before", "image": "s", "resources": {"limits": {"memory": "9Gi"}}}
TEMPLATE = {
    "nodeSelector": {"gpu": "h200"},
    "tolerations": [{"key": "team", "operator": "Exists"}],
    "initContainers": [BESIDE, BEFORE],
}
BIG = {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"rdma/hca": "1"}}
PLACED = {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
SPECS: dict[str, dict[str, Any]] = {
    "cpu": {},
    "gpus": {
        "trainer": {"image": "t", "replicas": 2, "gpus": 4, "resources": BIG, **PLACED},
        "rollout": {"engines": 3, "gpusPerEngine": 2, "resources": BIG, "podTemplate": TEMPLATE},
    },
    "colocated": {"trainer": {"image": "t", "gpus": 2}, "colocate": True, "rollout": {"gpusPerEngine": 1}},
    "templates": {"trainer": {"image": "t", "podTemplate": TEMPLATE, "headPodTemplate": TEMPLATE}},
    "head": {"trainer": {"image": "t", "headResources": BIG}},
    "judge": {"judge": {"model": {"image": {"reference": "j:1", "path": "/m"}}, "engines": 2, "gpusPerEngine": 1}},
    "host network": {"trainer": {"image": "t", "hostNetwork": True}},
}


def scheduled(group: PodGroup) -> dict[str, Any]:
    """What the scheduler and a message use of a group. Ports of the head beside the agent's shut no other Pod out."""
    requests = {**KUBERAY_INIT, **pod_requests(group.pod)}
    requests = {name: max(amount, KUBERAY_INIT.get(name, amount)) for name, amount in requests.items()}
    ports = {name for name in requests if name.startswith(HOST_PORT) and name != f"{HOST_PORT}52365"}
    return {
        "group": (group.name, group.replicas, group.size_field, group.placement_fields),
        "requests": {name: amount for name, amount in requests.items() if name not in ports},
        "selector": group.pod["nodeSelector"],
        "tolerations": sorted(map(str, group.pod.get("tolerations", []))),
    }


@pytest.mark.parametrize("name", SPECS)
def test_ray_pods_are_those_of_the_manifests(make_attempt: MakeAttempt, name: str) -> None:
    attempt = make_attempt(**SPECS[name])
    planned = [scheduled(group) for group in ray_pod_groups(attempt.spec)]
    assert planned == [scheduled(group) for group in pod_groups(cluster_plan(attempt))]


@pytest.mark.parametrize(
    "resources", [{}, {"requests": {"cpu": "2"}}, {"limits": {"memory": "8Gi", "nvidia.com/gpu": "1"}}]
)
def test_sandboxes_are_those_of_the_manifests(resources: dict[str, Any]) -> None:
    sandbox = SandboxSpec.model_validate({"resources": resources, "nodeSelector": {"a": "b"}})
    created, planned = sandbox_pod_spec(sandbox, SandboxSettings()), sandbox_pod_size(sandbox)
    assert pod_requests(created) == pod_requests(planned)
    assert created["nodeSelector"] == planned["nodeSelector"]
