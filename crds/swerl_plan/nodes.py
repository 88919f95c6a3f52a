"""Which nodes accept a Pod, and why the others do not; tolerations of Pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swerl_api import Toleration

Json = dict[str, Any]

NAMED_NODES = 3  # in a message
# Labels of nodes that belong to a node pool which an autoscaler may enlarge.
POOL_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
)

# Platforms taint GPU nodes with the name of the device resource.
GPU_TOLERATIONS: tuple[Json, ...] = tuple(
    {"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", "amd.com/gpu")
)


def toleration_manifests(tolerations: Iterable[Toleration], *, gpus: bool = False) -> list[Json]:
    """Tolerations as a Pod's manifest has them; with `gpus`, also of the taints that platforms put on GPU nodes."""
    given = [toleration.model_dump(by_alias=True, exclude_none=True) for toleration in tolerations]
    return [*given, *(dict(one) for one in GPU_TOLERATIONS if gpus and one not in given)]


def accepts(node: Json, selector: Mapping[str, str], tolerations: Iterable[Json]) -> bool:
    """Whether the node matches `selector` and `tolerations` cover its taints."""
    return _unmatched_label(node, selector) is None and _untolerated_taint(node, tolerations) is None


def excluded_nodes(nodes: Iterable[Json], pod: Json) -> str:
    """Why nodes do not accept `pod`, the first few by name; empty when every node accepts it."""
    reasons = [(node["metadata"].get("name", "?"), reason) for node in nodes if (reason := _exclusion(node, pod))]
    named = "; ".join(f"node {name} {reason}" for name, reason in reasons[:NAMED_NODES])
    return f"{named}; and {len(reasons) - NAMED_NODES} more" if len(reasons) > NAMED_NODES else named


def in_node_pools(nodes: Sequence[Json]) -> bool:
    """Whether a node belongs to a pool of a cloud or of Karpenter, so that new nodes may appear."""
    return any(label in (node["metadata"].get("labels") or {}) for node in nodes for label in POOL_LABELS)


def _exclusion(node: Json, pod: Json) -> str | None:
    if node.get("spec", {}).get("unschedulable"):
        return "is cordoned"
    if (label := _unmatched_label(node, pod.get("nodeSelector", {}))) is not None:
        return f"lacks label {label}"
    taint = _untolerated_taint(node, pod.get("tolerations", []))
    return None if taint is None else f"has taint {_format_taint(taint)}"


def _unmatched_label(node: Json, selector: Mapping[str, str]) -> str | None:
    labels = node["metadata"].get("labels") or {}
    return next((f"{key}={value}" for key, value in selector.items() if labels.get(key) != value), None)


def _untolerated_taint(node: Json, tolerations: Iterable[Json]) -> Json | None:
    listed = [*tolerations]
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(one, taint) for one in listed):
            return dict(taint)
    return None


def _format_taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))
