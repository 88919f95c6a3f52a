"""Rights, networks and pull secrets that the chart renders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swerl_api.pod_metadata import MESH_ANNOTATIONS, MESH_LABELS

from .templates import manifests, objects

Json = dict[str, Any]
CLUSTER_WIDE = {"nodes", "servicecidrs", "runtimeclasses", "clusterroles"}  # kinds without a namespace
CONSOLE = "{enabled: true, claim: runs, namespace: team-a}"
PROXY = {"podSelector": {"matchLabels": {"app": "proxy"}}}


def pods(found: list[Json]) -> dict[str, Json]:
    """Pod or Pod template by name of its object."""
    templates = [each.get("spec", {}).get("template", each if each["kind"] == "Pod" else None) for each in found]
    return {each["metadata"]["name"]: pod for each, pod in zip(found, templates, strict=True) if pod}


def is_named(manifest: Json, kind: str, name: str) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)


def resources(role: Json) -> set[str]:
    return {resource for rule in role["rules"] for resource in rule["resources"]}


def test_every_pod_has_the_pull_secrets(tmp_path: Path) -> None:
    values = f"{{image: {{pullSecrets: [one, two]}}, console: {CONSOLE}, kuberay: {{install: true}}}}"
    found = pods(objects(tmp_path, values))
    assert found.keys() == {"demo-operator", "demo-console", "demo-kuberay", "demo-crd-upgrade", "demo-test"}
    for name, pod in found.items():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}], name
    without = pods(objects(tmp_path, ""))
    assert not [name for name, pod in without.items() if "imagePullSecrets" in pod["spec"]]


def test_variables_such_as_proxies_reach_every_process(tmp_path: Path) -> None:
    proxy = {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}
    found = pods(objects(tmp_path, f"{{env: [{{name: HTTPS_PROXY, value: 'http://proxy:3128'}}], console: {CONSOLE}}}"))
    for name in ("demo-operator", "demo-console", "demo-crd-upgrade"):
        (container,) = found[name]["spec"]["containers"]
        assert proxy in container["env"], name


def test_pod_of_the_upgrade_opts_out_of_meshes(tmp_path: Path) -> None:
    metadata = pods(objects(tmp_path, ""))["demo-crd-upgrade"]["metadata"]
    assert MESH_LABELS.items() <= metadata["labels"].items() and metadata["annotations"] == MESH_ANNOTATIONS


def test_operator_of_all_namespaces_has_one_cluster_role(tmp_path: Path) -> None:
    found = objects(tmp_path, "")
    assert not [each for each in found if is_named(each, "Role", "demo-operator")]
    assert {"pods", "jobs", "rolebindings"} < resources(manifests(tmp_path, "")["ClusterRole/demo-operator"])


def test_operator_of_named_namespaces_has_its_rights_in_these_alone(tmp_path: Path) -> None:
    everywhere = manifests(tmp_path, "")["ClusterRole/demo-operator"]["rules"]
    found = objects(tmp_path, "namespaces: [team-a, team-b]")
    (cluster_role,) = [each for each in found if is_named(each, "ClusterRole", "demo-operator")]
    assert resources(cluster_role) == CLUSTER_WIDE
    roles = {each["metadata"]["namespace"]: each for each in found if is_named(each, "Role", "demo-operator")}
    assert roles.keys() == {"team-a", "team-b"}
    for role in roles.values():
        assert [*cluster_role["rules"], *role["rules"]] == everywhere
    bindings = {each["metadata"]["namespace"]: each for each in found if is_named(each, "RoleBinding", "demo-operator")}
    assert bindings.keys() == roles.keys()
    for binding in bindings.values():
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", "demo-operator")
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "demo-operator", "namespace": "default"}]
    (operator,) = pods(found)["demo-operator"]["spec"]["containers"]
    assert "--namespaces=team-a,team-b" in operator["args"]


@pytest.mark.parametrize(
    ("role", "aggregates", "verbs"),
    [
        ("view", {"view"}, {"get", "list", "watch"}),
        ("edit", {"edit", "admin"}, {"create", "update", "patch", "delete", "deletecollection"}),
    ],
)
def test_roles_of_people_aggregate_into_the_clusters_own(
    tmp_path: Path, role: str, aggregates: set[str], verbs: set[str]
) -> None:
    found = manifests(tmp_path, "")[f"ClusterRole/demo-{role}"]
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    labels = {name.removeprefix(prefix): value for name, value in found["metadata"]["labels"].items() if prefix in name}
    assert labels == dict.fromkeys(aggregates, "true")
    (rule,) = found["rules"]
    assert rule["apiGroups"] == ["swerl.dev"] and set(rule["verbs"]) == verbs
    assert set(rule["resources"]) == {"swerljobs", "swesandboxes", "sweimagesets", "sweevals"}


def test_console_takes_connections_of_its_peers_alone(tmp_path: Path) -> None:
    peers = "peers: [{podSelector: {matchLabels: {app: proxy}}}]"
    found = manifests(tmp_path, f"console: {{enabled: true, claim: runs, namespace: team-a, {peers}}}")
    policy, deployment = found["NetworkPolicy/demo-console"], found["Deployment/demo-console"]
    assert policy["metadata"]["namespace"] == deployment["metadata"]["namespace"] == "team-a"
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress"] and spec["podSelector"] == deployment["spec"]["selector"]
    assert spec["ingress"] == [{"from": [PROXY], "ports": [{"port": "http"}]}]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["http"]


def test_console_without_peers_is_closed(tmp_path: Path) -> None:
    assert "ingress" not in manifests(tmp_path, f"console: {CONSOLE}")["NetworkPolicy/demo-console"]["spec"]


def test_operator_shows_its_metrics_to_their_peers_and_to_helm_test(tmp_path: Path) -> None:
    found = manifests(tmp_path, "metrics: {peers: [{podSelector: {matchLabels: {app: proxy}}}]}")
    policy, deployment = found["NetworkPolicy/demo-operator"], found["Deployment/demo-operator"]
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress"] and spec["podSelector"] == deployment["spec"]["selector"]
    tester = {"app.kubernetes.io/instance": "demo", "app.kubernetes.io/component": "test"}
    assert tester.items() <= found["Pod/demo-test"]["metadata"]["labels"].items()
    peers = [{"podSelector": {"matchLabels": tester}}, PROXY]
    assert spec["ingress"] == [{"ports": [{"port": "health"}]}, {"from": peers, "ports": [{"port": "metrics"}]}]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["health", "metrics"]


def test_operator_without_peers_shows_its_metrics_to_helm_test_alone(tmp_path: Path) -> None:
    policy = manifests(tmp_path, "metrics: {peers: []}")["NetworkPolicy/demo-operator"]
    assert [len(rule.get("from", [])) for rule in policy["spec"]["ingress"]] == [0, 1]


def test_operator_has_no_network_policy_on_request(tmp_path: Path) -> None:
    assert "NetworkPolicy/demo-operator" not in manifests(tmp_path, "networkPolicy: {enabled: false}")
