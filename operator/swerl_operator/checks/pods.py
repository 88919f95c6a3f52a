"""Problems of Pods, read from their status.

Guarantee: pure; every problem names the Pod, what Kubernetes reports, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import JobReason
from swerl_api.images import PULL_REASONS, START_REASONS
from swerl_kube import Json

from ..problem import Problem, merge_problems
from ..ray.pods import container_statuses


def pod_problem(pods: Sequence[Json]) -> Problem | None:
    """The problems of the first of `pods` that has any."""
    for pod in pods:
        problems = [*pull_problems(pod), *filter(None, [source_copy_problem(pod), unschedulable_problem(pod)])]
        if problems:
            return merge_problems(problems)
    return None


def pull_problems(pod: Json) -> list[Problem]:
    """Images that the kubelet cannot pull, and containers that it cannot create."""
    problems = []
    for container in container_statuses(pod):
        waiting = container.get("state", {}).get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message", "")
        if reason in PULL_REASONS:
            text = (
                f"image {container['image']} cannot be pulled for Pod {_name(pod)}: {message or reason}; check the "
                "reference, push the image, or give pull secrets; the kubelet retries"
            )
            problems.append(Problem(JobReason.IMAGE_PULL_FAILED, text))
        if reason in START_REASONS:
            name, image = container["name"], container["image"]
            text = f"container {name} of Pod {_name(pod)} cannot start from {image}: {message or reason}"
            problems.append(Problem(JobReason.CONTAINER_START_FAILED, text))
    return problems


def source_copy_problem(pod: Json) -> Problem | None:
    """An init container that could not copy its source."""
    for container in pod.get("status", {}).get("initContainerStatuses", []):
        terminated = container.get("state", {}).get("terminated") or {}
        if container["name"].startswith("copy-") and terminated.get("exitCode", 0) != 0:
            name, image = container["name"], container["image"]
            text = (
                f"source {name.removeprefix('copy-')} could not be copied from image {image} in Pod {_name(pod)} "
                f"(exit code {terminated['exitCode']}); check the path with `kubectl logs {_name(pod)} -c {name}`"
            )
            return Problem(JobReason.SOURCE_COPY_FAILED, text)
    return None


def unschedulable_problem(pod: Json) -> Problem | None:
    """A Pod that fits no node at present."""
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            text = f"Pod {_name(pod)} waits for a node: {condition.get('message', '')}"
            return Problem(JobReason.POD_UNSCHEDULABLE, text)
    return None


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])
