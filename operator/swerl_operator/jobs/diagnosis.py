"""What the status of Pods says is wrong.

Guarantee: pure; every problem names the Pod, what Kubernetes said, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import JobReason
from swerl_api.images import PULL_REASONS, START_REASONS

from .attempt import Object
from .problem import Problem, joined


def pod_problem(pods: Sequence[Object]) -> Problem | None:
    """The first thing that keeps one of `pods` from running."""
    for pod in pods:
        problems = [*pull_problems(pod), *filter(None, [copy_problem(pod), unschedulable_problem(pod)])]
        if problems:
            return joined(problems)
    return None


def pull_problems(pod: Object) -> list[Problem]:
    """Images that cannot be pulled, and containers that cannot be created."""
    problems = []
    for entry in statuses(pod):
        waiting = entry.get("state", {}).get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message", "")
        if reason in PULL_REASONS:
            text = (
                f"image {entry['image']} cannot be pulled for Pod {_name(pod)}: {message or reason}; check the "
                "reference, push the image, or give pull secrets; the kubelet tries again by itself"
            )
            problems.append(Problem(JobReason.IMAGE_PULL_FAILED, text))
        if reason in START_REASONS:
            text = (
                f"container {entry['name']} of Pod {_name(pod)} cannot start from {entry['image']}: {message or reason}"
            )
            problems.append(Problem(JobReason.CONTAINER_START_FAILED, text))
    return problems


def copy_problem(pod: Object) -> Problem | None:
    """An init container that could not copy its source."""
    for entry in pod.get("status", {}).get("initContainerStatuses", []):
        ended = entry.get("state", {}).get("terminated") or {}
        if entry["name"].startswith("copy-") and ended.get("exitCode", 0) != 0:
            text = (
                f"source {entry['name'].removeprefix('copy-')} could not be copied from image {entry['image']} in Pod "
                f"{_name(pod)} (exit code {ended['exitCode']}); check the path with `kubectl logs {_name(pod)} -c "
                f"{entry['name']}`"
            )
            return Problem(JobReason.SOURCE_COPY_FAILED, text)
    return None


def unschedulable_problem(pod: Object) -> Problem | None:
    """A Pod no node takes at present."""
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            text = f"Pod {_name(pod)} waits for a node: {condition.get('message', '')}"
            return Problem(JobReason.POD_UNSCHEDULABLE, text)
    return None


def running(pod: Object) -> bool:
    """Whether its containers run."""
    return bool(pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"])


def ready(pod: Object) -> bool:
    """Whether it runs and passes its readiness probe."""
    conditions = pod.get("status", {}).get("conditions", [])
    return running(pod) and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def heads(pods: Sequence[Object]) -> list[Object]:
    """Those of `pods` that are a Ray head."""
    return [pod for pod in pods if pod["metadata"]["labels"].get("ray.io/node-type") == "head"]


def head_address(pods: Sequence[Object]) -> str | None:
    """IP of the running head Pod."""
    return next((pod["status"].get("podIP") for pod in heads(pods) if running(pod)), None)


def statuses(pod: Object) -> list[Object]:
    """Statuses of its containers, init containers first."""
    status = pod.get("status", {})
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])
