"""The NetworkPolicy of Ray Pods."""

from __future__ import annotations

from typing import Any

from swerl_operator.ray.network_policy import ray_policy

Json = dict[str, Any]
LABELS = {"swerl.dev/job": "demo"}
PROMETHEUS = {"namespaceSelector": {"matchLabels": {"team": "observability"}}}


def peers_by_port(policy: Json) -> dict[int | None, list[Json]]:
    """Peers that may connect, by port; None: to every port."""
    found: dict[int | None, list[Json]] = {}
    for rule in policy["spec"]["ingress"]:
        for port in rule.get("ports", [{"port": None}]):
            found.setdefault(port["port"], []).extend(rule["from"])
    return found


def policy(**options: Any) -> Json:
    metadata = {"name": "demo-ray", "namespace": "ns"}
    return ray_policy(metadata, LABELS, operator_namespace="system", **options)


def test_only_pods_of_the_same_ray_cluster_reach_every_port() -> None:
    spec = policy()["spec"]
    assert spec["policyTypes"] == ["Ingress"] and spec["podSelector"]["matchLabels"] == LABELS
    assert spec["podSelector"]["matchExpressions"] == [{"key": "ray.io/cluster", "operator": "Exists"}]
    assert peers_by_port(policy())[None] == [{"podSelector": spec["podSelector"]}], "no sandbox and no grading Pod"


def test_operator_reaches_dashboard_and_router() -> None:
    found = peers_by_port(policy())
    assert found.keys() == {None, 8265, 30000}
    (peer,) = found[8265]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "system"}
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"


def test_prometheus_reaches_metrics_alone() -> None:
    found = peers_by_port(policy(metrics_peers=[PROMETHEUS]))
    assert found.keys() == {None, 8265, 30000, 8080, 9102}
    assert [port for port, peers in found.items() if PROMETHEUS in peers] == [8080, 9102]


def test_clients_of_the_router_reach_the_router_alone() -> None:
    found = peers_by_port(policy(router_clients={"swerl.dev/role": "shard"}))
    shards = {"podSelector": {"matchLabels": {"swerl.dev/role": "shard"}}}
    assert [port for port, peers in found.items() if shards in peers] == [30000]
