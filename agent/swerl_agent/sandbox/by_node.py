"""Sandboxes of a job by node and state, from its SweSandboxes and Pods. Pure.

The states are those of the operator's metric `swerl_sandboxes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from .pod import ready

Json = dict[str, Any]
NodeCounts = dict[str, dict[str, int]]  # by node ("" without one) and state

STATES = ("pending", "waiting", "starting", "ready", "terminating", "terminated")  # pending: the Pod is not created yet
MOST_NODES = 100  # that a job's file and its page name; the others are one sum


def sandboxes_by_node(groups: Iterable[Json], pods: Iterable[Json]) -> NodeCounts:
    """Number of sandboxes; a state without sandboxes is absent."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        counts[str(pod["spec"].get("nodeName") or "")][pod_state(pod)] += 1
    if pending := sum(map(_not_created, groups)):
        counts[""]["pending"] += pending
    return {node: dict(states) for node, states in counts.items()}


def pod_state(pod: Json) -> str:
    """The state of a sandbox that has a Pod."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return "terminated"
    if pod["metadata"].get("deletionTimestamp"):
        return "terminating"
    if ready(pod):
        return "ready"
    return "starting" if pod["spec"].get("nodeName") else "waiting"


def _not_created(group: Json) -> int:
    status = group.get("status") or {}
    if group["metadata"].get("deletionTimestamp") or status.get("phase") in ("Finished", "Failed"):
        return 0
    return max(0, int(group["spec"].get("replicas") or 1) - int(status.get("replicas") or 0))
