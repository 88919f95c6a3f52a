"""Ports of ours on the wire: who reaches them under the policies of operator, grader and chart.

Strangers are Pods of another namespace, and Pods of the job's namespace with labels that count only elsewhere.
"""

from __future__ import annotations

import json
import time

import pytest
from swerl_agent.grading.manifests import GRADER_LABEL, deny_all_policy
from swerl_api import SweImageSetSpec
from swerl_api.names import EGRESS_LABEL, METRICS_PORT, RAY_AGENT_PORT, ROUTER_PORT
from swerl_operator.context import Settings
from swerl_operator.images.manifests import pull_pod, pull_policy
from swerl_operator.ray.cluster import DASHBOARD_PORT, GCS_PORT, RAY_METRICS_PORT
from swerl_operator.ray.network_policy import OPERATOR_LABELS, ray_policy
from swerl_operator.sandboxes.network_policy import sandbox_policy

from tests.control_plane.cluster.probe_namespace import Json, ProbeNamespace
from tests.unit.charts.templates import manifests

RAY_PORTS = {
    "gcs": GCS_PORT,
    "client": 10001,
    "dashboard": DASHBOARD_PORT,
    "agent": RAY_AGENT_PORT,
    "ray metrics": RAY_METRICS_PORT,
    "metrics": METRICS_PORT,
    "router": ROUTER_PORT,
    "engine": 31000,
    "gateway": 41000,
}
HEALTH, OPERATOR_METRICS, OPEN = "operator's health", "operator's metrics", "a Pod without a policy"
PORTS = {name: ("head", port) for name, port in RAY_PORTS.items()} | {
    HEALTH: ("operator", Settings.health_port),
    OPERATOR_METRICS: ("operator", Settings.metrics_port),
    "console": ("console", 8765),
    "sandbox": ("sandbox", 7000),
    "grading": ("grading", 7000),
    "pull": ("pull", 7000),
    OPEN: ("open", 7000),
}
JOB = {"swerl.dev/job": "demo"}
SHARD = {"swerl.dev/role": "shard"}
RAY = JOB | {"ray.io/cluster": "demo-1"}
SANDBOX = JOB | {"swerl.dev/role": "sandbox"}
PROMETHEUS, PROXY = {"app": "prometheus"}, {"app": "proxy"}
PROMETHEUS_PEER = {"namespaceSelector": {"matchLabels": {"team": "b"}}, "podSelector": {"matchLabels": PROMETHEUS}}
REACHED = {
    "worker": {*RAY_PORTS, HEALTH, OPEN},
    "shard": {"router", HEALTH, OPEN},
    "proxy": {"console", HEALTH, OPEN},
    "open-sandbox": {HEALTH, OPEN},
    "sandbox": {"sandbox"},
    "grading": {"grading"},
    "pull": {"pull"},
    "neighbour": {HEALTH, OPEN},
    "operator": {"dashboard", "router", HEALTH, OPERATOR_METRICS, OPEN},
    "prometheus": {"ray metrics", "metrics", HEALTH, OPERATOR_METRICS, OPEN},
    "helm-test": {HEALTH, OPERATOR_METRICS, OPEN},
    "stranger": {HEALTH, OPEN},
    "impostor": {HEALTH, OPEN},
}
IN_OTHER_NAMESPACE = {"operator", "prometheus", "helm-test", "stranger", "impostor"}


@pytest.fixture(scope="module")
def serving(probes: ProbeNamespace, other_probes: ProbeNamespace, tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The Pods of PORTS by name, once every Pod runs and the policies exist."""
    peers = {"metrics": {"peers": [PROMETHEUS_PEER]}}
    console = {"enabled": True, "claim": "runs", "peers": [{"podSelector": {"matchLabels": PROXY}}]}
    chart = manifests(tmp_path_factory.mktemp("chart"), json.dumps(peers | {"console": console}))
    image_set = {"metadata": {"name": "tasks", "namespace": probes.namespace, "uid": "uid-1"}}
    of_chart = {name: chart[f"Deployment/demo-{name}"]["spec"]["template"] for name in ("operator", "console")}
    labels = _labels(chart["Pod/demo-test"]["metadata"]["labels"], image_set)
    labels |= {name: pod["metadata"]["labels"] for name, pod in of_chart.items()}
    ports = {name: pod["spec"]["containers"][0]["ports"] for name, pod in of_chart.items()}  # policies name them
    for place, names in ((probes, labels.keys() - IN_OTHER_NAMESPACE), (other_probes, IN_OTHER_NAMESPACE)):
        place.apply(
            *(place.pod(name, *_command(name), labels=labels[name], ports=ports.get(name, [])) for name in names)
        )
    probes.wait_running(*(labels.keys() - IN_OTHER_NAMESPACE))
    other_probes.wait_running(*IN_OTHER_NAMESPACE)
    ray = ray_policy(
        {"name": "demo-ray"},
        JOB,
        operator_namespace=other_probes.namespace,
        metrics_peers=[PROMETHEUS_PEER],
        router_clients=SHARD,
    )
    closing = [pull_policy(image_set), deny_all_policy("grading", {}, "one", [])]
    closing.append(sandbox_policy(probes.namespace, "none", []))
    _apply_policies(probes, ray, chart["NetworkPolicy/demo-console"], *closing)
    _apply_policies(other_probes, chart["NetworkPolicy/demo-operator"])
    return {name: _place(name, probes, other_probes).get("pod", name) for name, _ in PORTS.values()}


def _labels(tester: Json, image_set: Json) -> dict[str, Json]:
    """Labels of every Pod but those of the chart's Deployments; `tester`: those of `helm test`."""
    pull = pull_pod(image_set, SweImageSetSpec.model_validate({"images": ["a"]}), ("node", "a"))
    return {
        "head": RAY,
        "worker": RAY,
        "shard": SHARD,
        "proxy": PROXY,
        "sandbox": SANDBOX | {EGRESS_LABEL: "none"},
        "open-sandbox": SANDBOX | {EGRESS_LABEL: "allow"},
        "grading": {GRADER_LABEL: "one"},
        "pull": pull["metadata"]["labels"],
        "open": {},
        "neighbour": tester | OPERATOR_LABELS | PROMETHEUS,
        "prometheus": PROMETHEUS,
        "helm-test": tester,
        "stranger": {},
        "impostor": RAY | SHARD | PROXY,
    }


def _command(pod: str) -> list[str]:
    ports = [str(port) for name, port in PORTS.values() if name == pod]
    return ["serve", *ports] if ports else ["sleep", "3600"]


def _apply_policies(place: ProbeNamespace, *policies: Json) -> None:
    """The policies in the namespace of `place`, without their owners, which do not exist."""
    kept = ({name: value for name, value in policy.items() if name != "metadata"} for policy in policies)
    names = (policy["metadata"]["name"] for policy in policies)
    place.apply(*(policy | {"metadata": {"name": name}} for policy, name in zip(kept, names, strict=True)))


def _place(pod: str, probes: ProbeNamespace, other_probes: ProbeNamespace) -> ProbeNamespace:
    return other_probes if pod in IN_OTHER_NAMESPACE else probes


@pytest.fixture(scope="module")
def targets(serving: Json) -> dict[str, str]:
    """The ports of PORTS."""
    return {name: f"tcp:{serving[pod]['status']['podIP']}:{port}" for name, (pod, port) in PORTS.items()}


@pytest.mark.parametrize("client", REACHED)
def test_only_those_who_need_a_port_reach_it(
    probes: ProbeNamespace, other_probes: ProbeNamespace, targets: dict[str, str], client: str
) -> None:
    place = _place(client, probes, other_probes)
    deadline = time.monotonic() + 40  # a policy takes effect after some tens of ms
    while True:
        found = {name for name, answers in place.reachability(client, targets).items() if answers}
        if found == REACHED[client] or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert found == REACHED[client]
