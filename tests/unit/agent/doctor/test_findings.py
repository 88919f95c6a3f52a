"""Findings of `swerl doctor` from objects as the API server returns them."""

from __future__ import annotations

import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_agent import RELEASE
from swerl_agent.doctor import Finding
from swerl_agent.doctor.control_plane import definitions, fairness, kuberay, kubernetes_version, operators
from swerl_agent.doctor.namespace import claims, quotas, selects, storage_classes
from swerl_agent.doctor.nodes import architectures, gpus
from swerl_agent.doctor.probe import ProbeSettings, dns, not_started
from swerl_agent.doctor.registries import allowances

Json = dict[str, Any]
ROOT = Path(__file__).parents[4]
CRDS = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]


def deployment(
    name: str, image: str, labels: Json | None = None, *, ready: int = 1, args: tuple[str, ...] = ()
) -> Json:
    container = {"name": "c", "image": image, "args": list(args)}
    return {
        "metadata": {"name": name, "namespace": "system", "labels": labels},
        "spec": {"template": {"spec": {"containers": [container]}}},
        "status": {"availableReplicas": ready}
        if ready
        else {"conditions": [{"status": "False", "message": "no image"}]},
    }


def operator(**options: Any) -> Json:
    labels = {"app.kubernetes.io/name": "swe-rl", "app.kubernetes.io/version": RELEASE}
    return deployment("swe-rl-operator", f"swe-rl/operator:{RELEASE}", labels, **options)


def storage_class(name: str, provisioner: str, *, default: bool = False) -> Json:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": annotations}, "provisioner": provisioner}


def only(found: Any) -> Finding:
    [finding] = found
    assert isinstance(finding, Finding)
    return finding


def statuses(found: Any) -> list[str]:
    return [finding.status for finding in found]


def test_release_is_that_of_distribution_and_chart() -> None:
    chart = yaml.safe_load((ROOT / "charts/Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == chart["version"] == chart["appVersion"] == RELEASE


@pytest.mark.parametrize(("version", "status"), [("v1.29.4-gke.1", "failed"), ("v1.30.0", "ok"), ("v1.34.4", "ok")])
def test_old_api_server_is_found(version: str, status: str) -> None:
    assert only(kubernetes_version({"gitVersion": version})).status == status


@pytest.mark.parametrize(
    ("image", "status"),
    [
        ("quay.io/kuberay/operator:v1.3.2", "failed"),
        ("quay.io/kuberay/operator:v1.6.1", "ok"),
        ("mirror:5000/hub/kuberay/operator:1.10", "ok"),
        ("mirror/kuberay-operator:b8825c99", "ok"),
    ],
)
def test_old_kuberay_is_found_by_its_tag(image: str, status: str) -> None:
    assert only(kuberay(True, [deployment("ray", image), deployment("other", "nginx:1.0")])).status == status


def test_kuberay_without_operator_or_replica_is_found() -> None:
    missing, without_operator = only(kuberay(False, [])), only(kuberay(True, []))
    assert "does not serve" in missing.message and "--set kuberay.install=true" in missing.remedy
    assert "no Deployment" in without_operator.message
    assert "kuberay.install" not in without_operator.remedy  # it installs nothing where others have made the CRDs
    stopped = only(kuberay(True, [deployment("ray", "quay.io/kuberay/operator:v1.6.1", ready=0)]))
    assert stopped.status == "failed" and "no image" in stopped.message


def test_missing_and_changed_definitions_are_named() -> None:
    assert only(definitions(CRDS)).status == "ok"
    changed = deepcopy(CRDS[1:])
    del changed[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["description"]
    missing, differing = definitions(changed)
    assert CRDS[0]["metadata"]["name"] in missing.message and CRDS[1]["metadata"]["name"] in differing.message
    assert f"helm upgrade --reset-then-reuse-values with the chart of version {RELEASE}" in differing.remedy
    assert "charts/crds" not in differing.remedy, "a user of a release has no checkout"


def test_operator_must_serve_the_namespace_alone() -> None:
    assert statuses(operators([operator()], "research")) == ["ok"]
    assert "no operator serves" in only(operators([operator(args=("--namespaces=a,b",))], "research")).message
    assert statuses(operators([operator(args=("--namespaces=a,research",)), operator()], "research"))[-1] == "failed"
    assert "not available" in only(operators([operator(ready=0)], "research")).message


def test_catch_all_is_too_little_for_drivers() -> None:
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": "system:authenticated"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
    }
    levels = [
        {"metadata": {"name": name}, "spec": {"limited": {"nominalConcurrencyShares": shares}}}
        for name, shares in (("catch-all", 5), ("workload-low", 240))
    ]
    spec = {"matchingPrecedence": 1, "priorityLevelConfiguration": {"name": "catch-all"}, "rules": [rule]}
    assert only(fairness([{"metadata": {"name": "all"}, "spec": spec}], levels, "research")).status == "warning"


def test_foreign_architecture_is_found() -> None:
    nodes = [
        {"metadata": {"name": name}, "status": {"nodeInfo": {"architecture": kind}}}
        for name, kind in (("a", "amd64"), ("b", "arm64"))
    ]
    found = only(architectures(nodes))
    assert "node b" in found.message and "exec format error" in found.message and found.remedy


def test_cordoned_gpu_node_is_found() -> None:
    node = {
        "metadata": {"name": "a"},
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}},
    }
    assert [(finding.status, "cordoned" in finding.message) for finding in gpus([node])] == [
        ("warning", True),
        ("ok", False),
    ]


def test_volumes_of_one_node_are_too_few_for_several() -> None:
    disks = [storage_class("disk", "pd.csi.storage.gke.io", default=True)]
    files = storage_class("files", "filestore.csi.storage.gke.io")
    assert statuses(storage_classes(disks, 1)) == ["ok"] and statuses(storage_classes(disks, 3)) == ["warning"]
    assert statuses(storage_classes([*disks, files], 3)) == ["ok"]
    assert statuses(storage_classes([], 1)) == ["failed"]
    assert "no default StorageClass" in next(storage_classes([files], 1)).message


def test_waiting_claims_are_found_unless_they_wait_for_a_pod() -> None:
    classes = [
        storage_class("late", "x") | {"volumeBindingMode": "WaitForFirstConsumer"},
        storage_class("now", "x") | {"volumeBindingMode": "Immediate"},
    ]
    waiting = [
        {"metadata": {"name": f"claim-{name}"}, "spec": {"storageClassName": name}, "status": {"phase": "Pending"}}
        for name in ("late", "now", None, "no-such")
    ]
    events = [{"involvedObject": {"name": "claim-now"}, "message": "quota of disks exceeded"}]
    slow, default, missing = claims(waiting, classes, events)
    assert "quota of disks exceeded" in slow.message and "names no StorageClass" in default.message
    assert "'no-such' does not exist" in missing.message


def test_quota_that_is_nearly_used_is_a_warning() -> None:
    status = {
        "hard": {"pods": "100", "requests.nvidia.com/gpu": "8"},
        "used": {"pods": "95", "requests.nvidia.com/gpu": "8"},
    }
    full, near = quotas([{"metadata": {"name": "team"}, "status": status}])
    assert (full.status, near.status) == ("failed", "warning")
    assert "requests.nvidia.com/gpu 8 of 8" in full.message and "pods 95 of 100" in near.message


def test_registry_with_few_pulls_left_is_a_warning() -> None:
    assert statuses(allowances({"docker.io": 12, "ghcr.io": 5000})) == ["warning", "ok"]


def test_name_server_that_no_policy_hides_is_looked_for_in_the_cluster() -> None:
    assert dns(["dns 10.0.0.10 53"], [], {}).status == "ok"
    assert "kube-dns" in dns(["tcp 10.0.0.1 443"], [], {}).remedy


def test_reason_of_a_pod_that_does_not_start_decides_the_remedy() -> None:
    settings = ProbeSettings("python:3.12", "gvisor")
    assert not_started(settings, "ErrImagePull", "429 Too Many Requests", "").check == "registry"
    assert not_started(settings, "Pending", "", 'no runtime for "runsc" is configured').check == "runtime-classes"
    assert not_started(settings, "Unschedulable", "0/3 nodes", "").check == "pods"


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
    ],
)
def test_selector_of_a_policy_matches_as_in_kubernetes(selector: Json, selected: bool) -> None:
    assert selects(selector, {"app": "a"}) is selected
