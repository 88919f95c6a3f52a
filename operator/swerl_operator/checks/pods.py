"""Problems of Pods, read from their status.

Guarantee: pure; every problem names the Pod, what Kubernetes reports, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import JobReason
from swerl_api.images import PULL_REASONS, START_REASONS
from swerl_kube import Json
from swerl_kube.pod_loss import STATUS_REASONS, disruption

from ..problem import Problem, merge_problems
from ..ray.pods import container_statuses, is_ready

NAMED_PODS = 3  # of a group, in a message
REPLICA_FAILURE = "ReplicaFailure"  # condition that KubeRay sets while it cannot create a Pod


def pod_problem(pods: Sequence[Json]) -> Problem | None:
    """The problems of the first of `pods` that has any."""
    for pod in pods:
        problems = [*pull_problems(pod), *filter(None, [init_container_problem(pod), unschedulable_problem(pod)])]
        if problems:
            return merge_problems(problems)
    return None


def cluster_problem(cluster: Json, pods: Sequence[Json]) -> Problem | None:
    """The problem of a RayCluster: of its first Pod with one, or of a Pod that the API server refused."""
    if (problem := pod_problem(pods)) is not None:
        return problem
    for condition in cluster.get("status", {}).get("conditions") or ():
        if condition["type"] == REPLICA_FAILURE and condition["status"] == "True":
            return refusal_problem(f"RayCluster {_name(cluster)}", str(condition.get("message") or ""))
    return None


def refusal_problem(owner: str, message: str) -> Problem:
    """A Pod of `owner` that the API server refused with `message`."""
    text = f"a Pod of {owner} is refused: {message}; change the quota, LimitRange or policy, or the resources"
    return Problem(JobReason.POD_REFUSED, text)


def sidecars_not_ready(pods: Sequence[Json], prefix: str) -> list[str]:
    """Containers that others added to `pods` and that are not ready; ours have names that begin with `prefix`."""
    return [
        f"container {container['name']} of Pod {_name(pod)}, which is not ours, is not ready"
        for pod in pods
        for container in pod.get("status", {}).get("containerStatuses") or ()
        if not container["name"].startswith(prefix) and not container.get("ready")
    ]


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


def init_container_problem(pod: Json) -> Problem | None:
    """An init container that failed: one that copies a source, or one of a podTemplate."""
    for container in pod.get("status", {}).get("initContainerStatuses", []):
        terminated = container.get("state", {}).get("terminated") or {}
        name, image, code = container["name"], container["image"], terminated.get("exitCode", 0)
        if code == 0 or name.startswith("wait-"):
            continue
        if name.startswith("copy-"):
            text = (
                f"source {name.removeprefix('copy-')} could not be copied from image {image} in Pod {_name(pod)} "
                f"(exit code {code}); check the path with `kubectl logs {_name(pod)} -c {name}`"
            )
            return Problem(JobReason.SOURCE_COPY_FAILED, text)
        text = (
            f"init container {name} ({image}) of Pod {_name(pod)} failed with exit code {code}; see "
            f"`kubectl logs {_name(pod)} -c {name}` and change it in podTemplate.initContainers"
        )
        return Problem(JobReason.CONTAINER_START_FAILED, text)
    return None


def unschedulable_problem(pod: Json) -> Problem | None:
    """A Pod that fits no node at present."""
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            text = f"Pod {_name(pod)} waits for a node: {condition.get('message', '')}"
            return Problem(JobReason.POD_UNSCHEDULABLE, text)
    return None


def disrupted_pods(pods: Sequence[Json]) -> list[str]:
    """Those of `pods` that the cluster takes from their nodes (eviction, drain, preemption), each with its message."""
    return [f"Pod {_name(pod)} {text}" for pod in pods if (text := _disruption(pod))]


def missing_pods(cluster: Json, pods: Sequence[Json]) -> list[str]:
    """For each group of a RayCluster that lacks ready Pods: how many, and what the first few wait for."""
    groups = {"headgroup": 1}  # KubeRay's name of the head's group
    for group in cluster.get("spec", {}).get("workerGroupSpecs", []):
        groups[group["groupName"]] = int(group.get("replicas", 0))
    return [text for name, replicas in groups.items() if (text := _missing_in_group(name, replicas, pods))]


def _missing_in_group(name: str, replicas: int, pods: Sequence[Json]) -> str:
    members = [pod for pod in pods if pod["metadata"]["labels"].get("ray.io/group") == name]
    waiting = [pod for pod in members if not is_ready(pod)]
    ready = len(members) - len(waiting)
    if ready >= replicas:
        return ""
    reasons = [f"Pod {_name(pod)} {_state(pod)}" for pod in waiting[:NAMED_PODS]]
    if absent := replicas - len(members):
        reasons.append(f"{absent} not created")
    return f"{name.removesuffix('group')} {ready} of {replicas} ({', '.join(reasons)})"


def _state(pod: Json) -> str:
    """What a Pod that is not ready does or waits for, in a few words."""
    status = pod.get("status", {})
    if text := _disruption(pod):
        return text
    if "deletionTimestamp" in pod["metadata"]:
        return "is being deleted"
    for container in container_statuses(pod):
        state = container.get("state", {})
        reason = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        if reason not in (None, "Completed", "PodInitializing"):
            return f"is {status.get('phase')}: {container['name']} {reason}"
        if "running" in state and not container.get("ready"):
            return f"is {status.get('phase')}: {container['name']} runs, not ready"
    return f"is {status.get('phase', 'Pending')}"


def _disruption(pod: Json) -> str:
    """Why the cluster takes the Pod from its node; '' while it does not."""
    status = pod.get("status", {})
    if (loss := disruption(status)) is not None:
        return f"leaves its node: {loss.cause}: {loss.message}"
    if (cause := status.get("reason")) in STATUS_REASONS:  # the kubelet took it
        return f"left its node: {cause}: {status.get('message') or ''}".rstrip(": ")
    return ""


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])
