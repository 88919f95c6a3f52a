"""The NetworkPolicy of the Ray Pods of a job or an evaluation. Pure.

Guarantee: a Pod that reaches a port of Ray can run code as the driver, so only the same Ray Pods reach all ports. The
operator reaches the dashboard and the router, an evaluation's shards the router, and Prometheus the metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swerl_api.names import METRICS_PORT, ROUTER_PORT
from swerl_kube import Json

from .cluster import DASHBOARD_PORT, RAY_METRICS_PORT

NAMESPACE_NAME = "kubernetes.io/metadata.name"  # Kubernetes sets this label on every namespace
OPERATOR_LABELS = {"app.kubernetes.io/name": "swe-rl", "app.kubernetes.io/component": "operator"}


def ray_policy(
    metadata: Json,
    labels: Mapping[str, str],
    *,
    operator_namespace: str,
    metrics_peers: Sequence[Json] = (),
    router_clients: Mapping[str, str] | None = None,
) -> Json:
    """Policy of the Ray Pods with `labels`.

    `metrics_peers`: NetworkPolicyPeers; `router_clients`: labels of Pods of the namespace that use the router.
    """
    pods: Json = {"matchLabels": dict(labels), "matchExpressions": [{"key": "ray.io/cluster", "operator": "Exists"}]}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: operator_namespace}},
        "podSelector": {"matchLabels": OPERATOR_LABELS},
    }
    ingress = [_allow([{"podSelector": pods}]), _allow([operator], DASHBOARD_PORT, ROUTER_PORT)]
    if router_clients is not None:
        ingress.append(_allow([{"podSelector": {"matchLabels": dict(router_clients)}}], ROUTER_PORT))
    if metrics_peers:
        ingress.append(_allow([*metrics_peers], RAY_METRICS_PORT, METRICS_PORT))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _allow(peers: list[Json], *ports: int) -> Json:
    return {"from": peers} | ({"ports": [{"protocol": "TCP", "port": port} for port in ports]} if ports else {})
