"""What the chart renders for given values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.charts.templates import manifests, render

from .conftest import ROOT

CHART = ROOT / "charts"
DIGEST = "sha256:" + "0" * 64


def pod_spec(found: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["Deployment/demo-operator"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(("value", "option"), [("off", "off"), ("'off'", "off"), ("false", "off"), ("warn", "warn")])
def test_capacity_check_may_be_a_word_that_yaml_reads_as_false(tmp_path: Path, value: str, option: str) -> None:
    assert f"--capacity-check={option}" in render(tmp_path, f"capacityCheck: {value}\n")


def test_networks_of_egress_internet_reach_the_operator(tmp_path: Path) -> None:
    values = "sandboxes: {internet: {nameServers: ['2001:db8::'], except: [203.0.113.0/24, '2001:db8::/32']}}\n"
    (operator,) = pod_spec(manifests(tmp_path, values))["containers"]
    assert "--sandbox-internet-name-servers=2001:db8::" in operator["args"]
    assert "--sandbox-internet-except=203.0.113.0/24,2001:db8::/32" in operator["args"]


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ("", "swe-rl/operator:{version}"),
        ("image: {tag: '2.0'}", "swe-rl/operator:2.0"),
        ("image: {registry: mirror.example.com/team}", "mirror.example.com/team/swe-rl/operator:{version}"),
        (f"image: {{tag: '2.0', digest: '{DIGEST}'}}", f"swe-rl/operator@{DIGEST}"),
    ],
)
def test_image_is_that_of_the_chart_unless_it_is_given(tmp_path: Path, values: str, image: str) -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    found = manifests(tmp_path, values)
    containers = [*pod_spec(found)["containers"], *found["Pod/demo-test"]["spec"]["containers"]]
    assert {container["image"] for container in containers} == {image.format(version=version)}


def test_several_replicas_survive_the_loss_of_a_node(tmp_path: Path) -> None:
    alone, two = manifests(tmp_path, ""), manifests(tmp_path, "replicas: 2")
    assert "PodDisruptionBudget/demo-operator" not in alone and "affinity" not in pod_spec(alone)
    budget = two["PodDisruptionBudget/demo-operator"]["spec"]
    assert (budget["minAvailable"], budget["selector"]) == (1, two["Deployment/demo-operator"]["spec"]["selector"])
    (rule,) = pod_spec(two)["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert rule["podAffinityTerm"]["labelSelector"] == budget["selector"]
    own = manifests(tmp_path, "{replicas: 2, affinity: {nodeAffinity: {}}}")
    assert pod_spec(own)["affinity"] == {"nodeAffinity": {}}


def test_pods_get_priority_labels_and_environment(tmp_path: Path) -> None:
    values = "{priorityClassName: high, podLabels: {team: a}, env: [{name: HTTPS_PROXY, value: 'http://proxy:3128'}]}"
    found = manifests(tmp_path, values)
    assert pod_spec(found)["priorityClassName"] == "high"
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in pod_spec(found)["containers"][0]["env"]
    labels = found["Deployment/demo-operator"]["spec"]["template"]["metadata"]["labels"]
    assert (
        labels["team"] == "a"
        and found["Deployment/demo-operator"]["spec"]["selector"]["matchLabels"].keys() <= labels.keys()
    )


def test_monitors_have_the_labels_that_a_prometheus_selects(tmp_path: Path) -> None:
    assert not [name for name in manifests(tmp_path, "") if "Monitor" in name]
    metrics = (
        "{serviceMonitor: {enabled: true, labels: {release: p}}, podMonitor: {enabled: true, labels: {release: p}}}"
    )
    found = manifests(tmp_path, f"{{namespaces: [team-a], metrics: {metrics}}}")
    service, pods = found["ServiceMonitor/demo-operator"], found["PodMonitor/demo-ray"]
    assert service["metadata"]["labels"]["release"] == pods["metadata"]["labels"]["release"] == "p"
    assert pods["spec"]["namespaceSelector"] == {"matchNames": ["team-a"]}
    assert [endpoint["port"] for endpoint in pods["spec"]["podMetricsEndpoints"]] == ["metrics", "driver-metrics"]


def test_dashboards_are_config_maps_that_grafana_selects(tmp_path: Path) -> None:
    assert not [
        name for name in manifests(tmp_path, "") if name.startswith(("ConfigMap/demo-dashboard", "PrometheusRule"))
    ]
    found = manifests(tmp_path, "metrics: {dashboards: {enabled: true, annotations: {grafana_folder: SWE-RL}}}")
    for path in (CHART / "dashboards").glob("*.json"):
        config_map = found[f"ConfigMap/demo-dashboard-{path.stem}"]
        assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert config_map["metadata"]["annotations"] == {"grafana_folder": "SWE-RL"}
        assert json.loads(config_map["data"][path.name]) == json.loads(path.read_text())


def test_alerts_are_a_rule_with_links_to_their_runbooks(tmp_path: Path) -> None:
    values = "{enabled: true, labels: {release: p}, runbookUrl: 'https://wiki.example.com/runbooks'}"
    rule = manifests(tmp_path, f"metrics: {{alerts: {values}}}")["PrometheusRule/demo"]
    assert rule["metadata"]["labels"]["release"] == "p"
    written = yaml.safe_load((CHART / "alerts.yaml").read_text())["groups"]
    assert [group["name"] for group in rule["spec"]["groups"]] == [group["name"] for group in written]
    first = rule["spec"]["groups"][0]["rules"][0]["annotations"]
    assert first["runbook_url"] == "https://wiki.example.com/runbooks#swerloperatorabsent"


def test_upgrade_writes_the_crds_of_the_new_image_unless_that_is_off(tmp_path: Path) -> None:
    found = manifests(tmp_path, "{image: {tag: '2.0'}, tolerations: [{key: t}], priorityClassName: high}")
    job = found["Job/demo-crd-upgrade"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "swe-rl/operator:2.0"
    assert (pod["tolerations"], pod["priorityClassName"]) == ([{"key": "t"}], "high")
    rules = found["ClusterRole/demo-crd-upgrade"]["rules"]
    named = {f"{yaml.safe_load(path.read_text())['metadata']['name']}" for path in (CHART / "crds").glob("*.yaml")}
    assert [set(rule["resourceNames"]) for rule in rules if rule["verbs"] == ["patch"]] == [named]
    assert not [name for name in manifests(tmp_path, "crds: {upgrade: false}") if "crd-upgrade" in name]
