"""Which nodes accept a Pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swerl_kube import Json


def accepts(node: Json, selector: Mapping[str, str], tolerations: Iterable[Json]) -> bool:
    """Whether the node matches `selector` and `tolerations` cover its taints."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    taints = [taint for taint in node.get("spec", {}).get("taints") or () if taint["effect"] != "PreferNoSchedule"]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))
