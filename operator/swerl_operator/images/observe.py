"""Reads what the decision about an image set depends on: its nodes, and what its Pods have pulled. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from swerl_api import SweImageSetSpec
from swerl_api.images import PULL_REASONS, START_REASONS
from swerl_kube import Json
from swerl_kube.pod_loss import container_status
from swerl_plan.nodes import accepts, toleration_manifests

PULL_CONTAINER = "pull"

PullTarget = tuple[str, str]  # node, image


@dataclass(frozen=True)
class Pull:
    """The target of one Pod and its result."""

    pod: str
    uid: str
    target: PullTarget
    state: Literal["running", "pulled", "failed"]
    message: str = ""


def selected_nodes(nodes: Iterable[Json], spec: SweImageSetSpec) -> list[str]:
    """Names of the ready nodes that Pods with the set's selector and tolerations could run on, sorted."""
    tolerations = toleration_manifests(spec.tolerations)
    accepting = (node for node in nodes if _is_ready(node) and accepts(node, spec.node_selector, tolerations))
    return sorted(node["metadata"]["name"] for node in accepting)


def _is_ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def read_pull(pod: Json) -> Pull:
    """The result in the Pod's status."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    spec, status = pod["spec"], pod.get("status") or {}
    image = next(container["image"] for container in spec["containers"] if container["name"] == PULL_CONTAINER)
    target = (str(spec.get("nodeName")), str(image))
    state = container_status(status, PULL_CONTAINER).get("state") or {}
    waiting = state.get("waiting") or {}
    if state.get("terminated") or state.get("running") or waiting.get("reason") in START_REASONS:
        return Pull(name, uid, target, "pulled")
    if waiting.get("reason") in PULL_REASONS:
        return Pull(name, uid, target, "failed", f"{waiting['reason']}: {waiting.get('message') or ''}".rstrip(": "))
    if status.get("phase") == "Failed":
        return Pull(name, uid, target, "failed", f"{status.get('reason')}: {status.get('message') or ''}".rstrip(": "))
    return Pull(name, uid, target, "running")
