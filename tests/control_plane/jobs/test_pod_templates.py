"""What users add to Ray Pods, as a real API server and KubeRay take it."""

from __future__ import annotations

import json

from tests.control_plane.operator_process import Operator

from .conftest import IMAGE, Body, JobNamespace

SIDECAR = {
    "name": "beside",
    "image": IMAGE,
    "command": ["sleep", "3600"],
    "restartPolicy": "Always",
    "capabilities": ["NET_ADMIN"],
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}
TEMPLATE = {
    "labels": {"team": "rl"},
    "annotations": {"example.org/networks": "rdma-0"},
    "env": {"NCCL_DEBUG": "INFO"},
    "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": True}],
    "initContainers": [SIDECAR],
}


def _name(job: Body) -> str:
    return str(job["metadata"]["name"])


def _ends_of_init_containers(kube: JobNamespace, pod: str) -> dict[str, int]:
    """Exit codes by name. What is copied here has files of several owners."""
    statuses = json.loads(kube.kubectl("get", "pod", pod, "-o", "json"))["status"].get("initContainerStatuses", [])
    return {one["name"]: one["state"]["terminated"]["exitCode"] for one in statuses if "terminated" in one["state"]}


def test_pods_that_the_server_refuses_are_reported_before_a_cluster_exists(
    kube: JobNamespace, operator: Operator, job: Body
) -> None:
    job["spec"]["trainer"]["podTemplate"] = {"priorityClassName": "no-such-class"}
    job["spec"]["rollout"]["podTemplate"] = {"affinity": {"nodeAfinity": {}}}
    kube.apply(job)
    message = kube.until_condition(_name(job), "Validated", "PodRefused")["message"]
    assert "no PriorityClass with name no-such-class" in message and "change spec.trainer.podTemplate" in message
    assert 'unknown field "spec.affinity.nodeAfinity"' in message and "change spec.rollout.podTemplate" in message
    assert kube.names("rayclusters,pods") == []


def test_ray_pods_have_what_their_template_adds(kube: JobNamespace, operator: Operator, job: Body) -> None:
    name = _name(job)
    job["spec"]["trainer"]["podTemplate"] = TEMPLATE
    kube.apply(job)
    selector = f"swerl.dev/job={name},swerl.dev/role=train,team=rl"
    pods = kube.until(lambda: json.loads(kube.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"], bool, 300)
    pod = pods[0]
    assert pod["metadata"]["annotations"]["example.org/networks"] == "rdma-0"
    containers = {one["name"]: one for one in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])}
    assert {"beside", "wait-for-head", "ray-train"} <= containers.keys()
    assert containers["beside"]["securityContext"]["capabilities"]["add"] == ["NET_ADMIN"]
    ray = containers["ray-train"]
    assert {"name": "NCCL_DEBUG", "value": "INFO"} in ray["env"]
    mounts = {mount["mountPath"]: mount for mount in ray["volumeMounts"]}
    assert mounts["/scratch"]["readOnly"] is True and {"/swerl/output", "/dev/shm"} <= mounts.keys()
    kube.until(
        lambda: _ends_of_init_containers(kube, pod["metadata"]["name"]).get("copy-model"), lambda code: code == 0
    )
    missing = f"train 0 of 1 (Pod {pod['metadata']['name']} is Pending"
    kube.until(lambda: kube.condition(name, "ClusterReady").get("message", ""), lambda text: missing in text)
