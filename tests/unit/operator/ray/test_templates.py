"""What users add to the Pods of one role."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_operator.jobs.manifests import cluster_plan
from swerl_operator.ray.cluster import ray_cluster

from tests.unit.operator.conftest import MakeAttempt, Spec

Json = dict[str, Any]
GPUS = {"image": "t", "replicas": 2, "gpus": 4, "tensorParallel": 4}
DAEMON = {
    "name": "rx",
    "image": "daemon:1",
    "restartPolicy": "Always",
    "capabilities": ["NET_ADMIN"],
    "volumeMounts": [{"name": "runs", "mountPath": "/runs"}],
}
TEMPLATE: Json = {
    "labels": {"team": "rl"},
    "annotations": {"k8s.v1.cni.cncf.io/networks": "rdma-0, rdma-1"},
    "nodeSelector": {"gpu": "h200"},
    "tolerations": [{"key": "reserved", "operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
    "priorityClassName": "training",
    "runtimeClassName": "nvidia",
    "env": {"NCCL_DEBUG": "WARN", "SHARED": "own"},
    "volumes": [
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}},
    ],
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": True}],
    "initContainers": [DAEMON],
    "resourceClaims": [{"name": "imex", "resourceClaimTemplateName": "imex-channel"}],
}


def templates(make_attempt: MakeAttempt, **changes: Any) -> dict[str, Json]:
    """Pod template by group."""
    spec = ray_cluster(cluster_plan(make_attempt(**changes)))["spec"]
    workers = {group["groupName"]: group["template"] for group in spec["workerGroupSpecs"]}
    return {"head": spec["headGroupSpec"]["template"], **workers}


@pytest.fixture
def train(make_attempt: MakeAttempt) -> Json:
    trainer = GPUS | {"podTemplate": TEMPLATE, "env": {"SHARED": "all"}, "nodeSelector": {"zone": "a"}}
    return templates(make_attempt, trainer=trainer, rollout={"gpusPerEngine": 1})["train"]


def test_metadata_is_added_to_ours(train: Json) -> None:
    labels, annotations = train["metadata"]["labels"], train["metadata"]["annotations"]
    assert labels["team"] == "rl" and labels["swerl.dev/role"] == "train"
    assert annotations["k8s.v1.cni.cncf.io/networks"] == "rdma-0, rdma-1"
    assert annotations["linkerd.io/inject"] == "disabled"


def test_placement_is_added_to_that_of_all_ray_pods(train: Json) -> None:
    pod = train["spec"]
    assert pod["nodeSelector"] == {"zone": "a", "gpu": "h200"}
    assert [one["key"] for one in pod["tolerations"]] == ["nvidia.com/gpu", "amd.com/gpu", "reserved"]
    assert pod["topologySpreadConstraints"] == TEMPLATE["topologySpreadConstraints"]
    assert (pod["priorityClassName"], pod["runtimeClassName"]) == ("training", "nvidia")


def test_environment_of_the_role_wins(train: Json) -> None:
    env = {one["name"]: one["value"] for one in train["spec"]["containers"][0]["env"]}
    assert (env["NCCL_DEBUG"], env["SHARED"], env["RAY_USAGE_STATS_ENABLED"]) == ("WARN", "own", "0")


def test_claim_that_we_mount_too_stays_one_volume(train: Json) -> None:
    pod = train["spec"]
    claims = [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    assert [(volume["name"], volume["persistentVolumeClaim"]["claimName"]) for volume in claims] == [("output", "runs")]
    assert {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}} in pod["volumes"]
    (daemon,) = [one for one in pod["initContainers"] if one["name"] == "rx"]
    assert daemon["volumeMounts"] == [{"name": "output", "mountPath": "/runs"}]
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["/scratch"] == {"name": "scratch", "mountPath": "/scratch", "readOnly": True}
    assert "/swerl/output" in mounts


def test_sidecar_starts_before_the_wait_for_the_head_and_has_only_its_capabilities(train: Json) -> None:
    assert [one["name"] for one in train["spec"]["initContainers"]] == ["copy-model", "rx", "wait-for-head"]
    daemon = train["spec"]["initContainers"][1]
    assert daemon["restartPolicy"] == "Always"
    assert daemon["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert daemon["securityContext"]["allowPrivilegeEscalation"] is False


def test_device_claims_are_of_the_ray_container(train: Json) -> None:
    assert train["spec"]["resourceClaims"] == TEMPLATE["resourceClaims"]
    resources = train["spec"]["containers"][0]["resources"]
    assert resources["claims"] == [{"name": "imex"}] and resources["limits"]["nvidia.com/gpu"] == 4


def test_each_role_has_its_own_template(make_attempt: MakeAttempt, spec: Spec) -> None:
    def marked(value: str) -> Json:
        return {"annotations": {"mark": value}}

    trainer = spec["trainer"] | {"podTemplate": marked("train"), "headPodTemplate": marked("head")}
    rollout = {"podTemplate": marked("engine")}
    judge = {"model": {"configMap": {"name": "judge"}}}
    found = templates(make_attempt, trainer=trainer, rollout=rollout, judge=judge)
    marks = {group: template["metadata"]["annotations"]["mark"] for group, template in found.items()}
    assert marks == {"head": "head", "train": "train", "engine": "engine", "judge": "engine"}


def test_trainer_pods_with_gpus_prefer_one_node_then_one_zone(make_attempt: MakeAttempt) -> None:
    pods = templates(make_attempt, trainer=GPUS, rollout={"gpusPerEngine": 1})
    terms = pods["train"]["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    by_key = {term["podAffinityTerm"]["topologyKey"]: term for term in terms}
    assert by_key["kubernetes.io/hostname"]["weight"] > by_key["topology.kubernetes.io/zone"]["weight"]
    for term in terms:
        selector = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
        assert selector.items() <= pods["train"]["metadata"]["labels"].items(), "it selects the Pods themselves"
        assert selector["swerl.dev/role"] == "train" and selector["swerl.dev/attempt"] == "1"
    assert "affinity" not in pods["engine"]["spec"] and "affinity" not in pods["head"]["spec"]


def test_single_trainer_pod_and_own_affinity_replace_it(make_attempt: MakeAttempt) -> None:
    rollout = {"gpusPerEngine": 1}
    assert "affinity" not in templates(make_attempt, trainer=GPUS | {"replicas": 1}, rollout=rollout)["train"]["spec"]
    own = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
    trainer = GPUS | {"podTemplate": {"affinity": own}}
    assert templates(make_attempt, trainer=trainer, rollout=rollout)["train"]["spec"]["affinity"] == own


def test_pods_on_their_nodes_network_have_a_port_that_keeps_them_apart(make_attempt: MakeAttempt, spec: Spec) -> None:
    found = templates(make_attempt, trainer=spec["trainer"] | {"hostNetwork": True})
    for group, template in found.items():
        pod = template["spec"]
        assert pod["hostNetwork"] and pod["dnsPolicy"] == "ClusterFirstWithHostNet", group
        ports = [port["hostPort"] for port in pod["containers"][0]["ports"] if "hostPort" in port]
        assert ports == [52365], group


def test_job_without_templates_has_the_pods_of_before(make_attempt: MakeAttempt) -> None:
    for group, template in templates(make_attempt).items():
        extra = {"affinity", "hostNetwork", "priorityClassName", "runtimeClassName", "topologySpreadConstraints"}
        assert not extra & template["spec"].keys(), group
