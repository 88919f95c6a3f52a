"""Whether the nodes could hold a job at all, before anything of it is created.

Guarantees: pure; a job is refused only when its Ray Pods together, or one Pod of an episode alone, would not fit even
on empty nodes, so that what others use now makes it wait (the scheduler's business), never fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from swerl_api import JobReason

from ..quantity import Amounts, parse_amounts, say
from .attempt import Object
from .problem import Problem
from .raycluster import Group, Plan, pod_template

# KubeRay adds an init container of this size to every worker (`wait-gcs-ready`), unless it is told not to.
KUBERAY_INIT: Amounts = parse_amounts({"cpu": "200m", "memory": "256Mi"})


def capacity_problem(plan: Plan, nodes: Sequence[Object]) -> Problem | None:
    """Why `nodes`, all empty, could not hold the plan's Pods together; None when they could."""
    free = [(node, _allocatable(node)) for node in nodes]
    pods = [(group, pod_template(plan, group)["spec"]) for group in plan.groups for _ in range(group.replicas)]
    pods.sort(key=lambda pod: sorted(_ray_requests(pod[1]).items(), key=_weight), reverse=True)
    for group, pod in pods:
        wanted = _ray_requests(pod)
        place = next((room for node, room in free if _accepts(node, pod) and _fits(wanted, room)), None)
        if place is None:
            return _problem(plan, group, pod, nodes)
        for name, amount in wanted.items():
            place[name] = place.get(name, Decimal(0)) - amount
    return None


def lone_pod_problem(kind: str, pod: Object, nodes: Sequence[Object]) -> Problem | None:
    """Why none of `nodes`, all empty, could hold `pod` alone, whose size is spec.<kind>.resources."""
    wanted = pod_requests(pod)
    accepting = [node for node in nodes if _accepts(node, pod)]
    if any(_fits(wanted, _allocatable(node)) for node in accepting):
        return None
    if not accepting:
        text = f"{_refusal(kind, nodes)}; check spec.sandbox.nodeSelector and tolerations"
        runtime = pod.get("runtimeClassName")
        return _insufficient(f"{text}, and the scheduling of RuntimeClass {runtime!r}" if runtime else text)
    return _insufficient(
        f"not even one {kind} Pod with {_need(wanted)} fits one of the {len(accepting)} node(s) that accept it, even "
        f"when these are empty (largest allocatable: {_largest(wanted, accepting)}); lower spec.{kind}.resources or "
        "add nodes"
    )


def pod_requests(pod: Object) -> Amounts:
    """What the scheduler reserves: the containers' sum, or the biggest init container if that is more, and overhead."""
    total: Amounts = {"pods": Decimal(1)}
    for container in pod["containers"]:
        for name, amount in _requests(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for initial in map(_requests, pod.get("initContainers", [])):
        total = _at_least(total, initial)
    for name, amount in parse_amounts(pod.get("overhead")).items():
        total[name] = total.get(name, Decimal(0)) + amount
    return total


def _ray_requests(pod: Object) -> Amounts:
    return _at_least(pod_requests(pod), KUBERAY_INIT)


def _at_least(total: Amounts, initial: Amounts) -> Amounts:
    return total | {name: max(total.get(name, Decimal(0)), amount) for name, amount in initial.items()}


def _requests(container: Object) -> Amounts:
    resources = container.get("resources", {})
    return parse_amounts(resources.get("limits")) | parse_amounts(resources.get("requests"))


def _allocatable(node: Object) -> Amounts:
    return parse_amounts(node.get("status", {}).get("allocatable"))


def _weight(item: tuple[str, Decimal]) -> tuple[bool, str]:
    """Devices first: the Pods that need GPUs are the hard ones to place."""
    return ("/" not in item[0], item[0])


def _accepts(node: Object, pod: Object) -> bool:
    """Whether selector, taints and cordon let the Pod onto the node."""
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in pod.get("nodeSelector", {}).items()):
        return False
    if node.get("spec", {}).get("unschedulable"):
        return False
    taints = [taint for taint in node.get("spec", {}).get("taints", []) if taint["effect"] != "PreferNoSchedule"]
    return all(any(_tolerates(t, taint) for t in pod.get("tolerations", [])) for taint in taints)


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


def _fits(wanted: Amounts, room: Amounts) -> bool:
    return all(amount <= room.get(name, Decimal(0)) for name, amount in wanted.items())


def _problem(plan: Plan, group: Group, pod: Object, nodes: Sequence[Object]) -> Problem:
    wanted = _ray_requests(pod)
    accepting = [node for node in nodes if _accepts(node, pod)]
    if not accepting:
        return _insufficient(
            f"{_refusal(group.name, nodes)}; check spec.{plan.spec_field}.nodeSelector and tolerations"
        )
    return _insufficient(
        f"{group.replicas} {group.name} Pod(s) with {_need(wanted)} each do not fit, with the job's other Pods, on the "
        f"{len(accepting)} node(s) that accept them, even when these are empty (largest allocatable: "
        f"{_largest(wanted, accepting)}); lower spec.{group.spec_field} or add nodes"
    )


def _insufficient(text: str) -> Problem:
    return Problem(JobReason.INSUFFICIENT_RESOURCES, text)


def _refusal(pods: str, nodes: Sequence[Object]) -> str:
    return f"none of the {len(nodes)} nodes accepts {pods} Pods"


def _need(wanted: Amounts) -> str:
    return ", ".join(say(name, wanted[name]) for name in _told(wanted))


def _largest(wanted: Amounts, nodes: Sequence[Object]) -> str:
    """The most that any of `nodes` has of each resource."""
    rooms = [_allocatable(node) for node in nodes]
    return ", ".join(say(name, max(room.get(name, Decimal(0)) for room in rooms)) for name in _told(wanted))


def _told(wanted: Amounts) -> list[str]:
    return sorted(name for name in wanted if name != "pods")
