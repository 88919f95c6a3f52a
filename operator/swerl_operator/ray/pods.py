"""The state of Ray Pods, read from their status. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_kube import Json

NODE_TYPE_LABEL = "ray.io/node-type"  # of KubeRay: head or worker


def is_running(pod: Json) -> bool:
    """Whether the Pod runs and is not being deleted."""
    return bool(pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"])


def is_ready(pod: Json) -> bool:
    """Whether it runs and passes its readiness probe."""
    conditions = pod.get("status", {}).get("conditions", [])
    return is_running(pod) and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def head_pods(pods: Sequence[Json]) -> list[Json]:
    """Those of `pods` that are a Ray head."""
    return [pod for pod in pods if pod["metadata"]["labels"].get(NODE_TYPE_LABEL) == "head"]


def head_address(pods: Sequence[Json]) -> str | None:
    """IP of the running head Pod."""
    return next((pod["status"].get("podIP") for pod in head_pods(pods) if is_running(pod)), None)


def container_statuses(pod: Json) -> list[Json]:
    """Statuses of its containers, init containers first."""
    status = pod.get("status", {})
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
