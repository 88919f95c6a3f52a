"""Whether the nodes could hold a job at all, before anything of it is created.

Guarantees: pure; a job is refused only when its Ray Pods would not fit even on empty nodes, so that what others use now
makes it wait (the scheduler's business), never fail.
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
    pods.sort(key=lambda pod: sorted(pod_requests(pod[1]).items(), key=_weight), reverse=True)
    for group, pod in pods:
        wanted = pod_requests(pod)
        place = next((room for node, room in free if _accepts(node, pod) and _fits(wanted, room)), None)
        if place is None:
            return _problem(plan, group, pod, nodes)
        for name, amount in wanted.items():
            place[name] = place.get(name, Decimal(0)) - amount
    return None


def pod_requests(pod: Object) -> Amounts:
    """What the scheduler reserves: the sum of the containers, or the biggest init container if that is more."""
    total: Amounts = {"pods": Decimal(1)}
    for container in pod["containers"]:
        for name, amount in _requests(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for initial in [*map(_requests, pod.get("initContainers", [])), KUBERAY_INIT]:
        for name, amount in initial.items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


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
    wanted = {name: amount for name, amount in pod_requests(pod).items() if name != "pods"}
    need = ", ".join(say(name, amount) for name, amount in sorted(wanted.items()))
    accepting = [node for node in nodes if _accepts(node, pod)]
    if not accepting:
        text = (
            f"none of the {len(nodes)} nodes accepts {group.name} Pods; "
            f"check spec.{plan.spec_field}.nodeSelector and tolerations"
        )
        return Problem(JobReason.INSUFFICIENT_RESOURCES, text)
    largest = ", ".join(
        say(name, max(_allocatable(node).get(name, Decimal(0)) for node in accepting)) for name in sorted(wanted)
    )
    text = (
        f"{group.replicas} {group.name} Pod(s) with {need} each do not fit, with the job's other Pods, on the "
        f"{len(accepting)} node(s) that accept them, even when these are empty (largest allocatable: {largest}); "
        f"lower spec.{group.spec_field} or add nodes"
    )
    return Problem(JobReason.INSUFFICIENT_RESOURCES, text)
