"""Whether nodes can hold Pods: what is too large for them, with the field that says so.

Guarantees: pure; nodes count as empty, so present use by others is no shortage: it makes Pods wait, never fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from swerl_api.quantity import Amounts, format_quantity, parse_amounts

from .nodes import Json, accepts, excluded_nodes, in_node_pools

CHECKS = ("auto", "enforce", "warn", "off")  # values of the operator's --capacity-check, the chart's capacityCheck
# KubeRay adds an init container of this size to every worker (`wait-gcs-ready`), unless that is disabled.
KUBERAY_INIT: Amounts = parse_amounts({"cpu": "200m", "memory": "256Mi"})
HOST_PORT = "host port "  # prefix: each port of a node is a resource of which it has one


@dataclass(frozen=True)
class PodGroup:
    """Equal Pods of a Ray cluster."""

    name: str
    replicas: int
    pod: Json  # its spec: what the scheduler uses of it
    size_field: str  # that sizes it, such as spec.trainer.headResources
    placement_fields: str  # that choose its nodes, in words


@dataclass(frozen=True)
class Shortage:
    """Pods that do not fit."""

    field: str  # that sizes them
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def nodes_are_final(check: str, nodes: Sequence[Json]) -> bool:
    """Whether a job that does not fit `nodes` can be refused: no others are expected."""
    return check == "enforce" or (check == "auto" and not in_node_pools(nodes))


def refusal_words(check: str, text: str) -> str:
    """The message `text` about a job that is refused."""
    return f"{text} (the operator's capacityCheck is {check!r})"


def waiting_words(check: str, text: str) -> str:
    """The message `text` about a job whose Pods wait for nodes."""
    return f"{text}; the Pods are created and wait for nodes (the operator's capacityCheck is {check!r})"


def cluster_shortage(groups: Sequence[PodGroup], nodes: Sequence[Json]) -> Shortage | None:
    """Why `nodes`, all empty, could not hold the Pods of `groups` together; None when they could."""
    available = [(node, _allocatable(node)) for node in nodes]
    pods = [(group, group.pod) for group in groups for _ in range(group.replicas)]
    pods.sort(key=lambda pod: sorted(_ray_requests(pod[1]).items(), key=_devices_first), reverse=True)
    for group, pod in pods:
        requests = _ray_requests(pod)
        accepting = (capacity for node, capacity in available if _accepts(node, pod))
        first_fit = next((capacity for capacity in accepting if _fits(requests, capacity)), None)
        if first_fit is None:
            return _group_shortage(group, nodes)
        for name, amount in requests.items():
            first_fit[name] = _amount(first_fit, name) - amount
    return None


def pod_shortage(kind: str, pod: Json, nodes: Sequence[Json]) -> Shortage | None:
    """Why none of `nodes`, all empty, could hold `pod` alone, whose size is spec.<kind>.resources."""
    field, requests = f"spec.{kind}.resources", pod_requests(pod)
    accepting = [node for node in nodes if _accepts(node, pod)]
    if any(_fits(requests, _allocatable(node)) for node in accepting):
        return None
    if not accepting:
        remedy, runtime = "check spec.sandbox.nodeSelector and tolerations", pod.get("runtimeClassName")
        remedy += f", and the scheduling of RuntimeClass {runtime!r}" if runtime else ""
        return Shortage(field, _no_node_accepts(kind, nodes, pod), remedy)
    problem = (
        f"not even one {kind} Pod with {_format_requests(requests)} fits one of the {len(accepting)} node(s) that "
        f"accept it, even when these are empty (largest allocatable: {_largest(requests, accepting)})"
        f"{_excluded(nodes, pod)}"
    )
    return Shortage(field, problem, f"lower {field} or add nodes")


def pod_requests(pod: Json) -> Amounts:
    """What the scheduler reserves: containers and sidecars together, or the largest init container if that is more;
    overhead; ports of the node. Raises ValueError."""
    total: Amounts = {"pods": Decimal(1)}
    before = pod.get("initContainers", [])
    sidecars = [container for container in before if container.get("restartPolicy") == "Always"]
    for container in (*pod["containers"], *sidecars):
        for name, amount in _requests(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for init_requests in map(_requests, before):
        total = _maximum(total, init_requests)
    for name, amount in parse_amounts(pod.get("overhead")).items():
        total[name] = total.get(name, Decimal(0)) + amount
    ports = [port for container in pod["containers"] for port in container.get("ports", [])]
    numbers = {port.get("hostPort") or (pod.get("hostNetwork") and port["containerPort"]) for port in ports}
    return total | {f"{HOST_PORT}{number}": Decimal(1) for number in numbers if number}


def _ray_requests(pod: Json) -> Amounts:
    return _maximum(pod_requests(pod), KUBERAY_INIT)


def _maximum(total: Amounts, init_requests: Amounts) -> Amounts:
    return total | {name: max(total.get(name, Decimal(0)), amount) for name, amount in init_requests.items()}


def _requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources", {})
    return parse_amounts(resources.get("limits")) | parse_amounts(resources.get("requests"))


def _allocatable(node: Json) -> Amounts:
    return parse_amounts(node.get("status", {}).get("allocatable"))


def _devices_first(item: tuple[str, Decimal]) -> tuple[bool, str]:
    """Devices first: the Pods that need GPUs are the hardest to place."""
    return ("/" not in item[0], item[0])


def _accepts(node: Json, pod: Json) -> bool:
    """Whether selector, taints and cordon allow the Pod on the node."""
    cordoned = node.get("spec", {}).get("unschedulable")
    return not cordoned and accepts(node, pod.get("nodeSelector", {}), pod.get("tolerations", []))


def _fits(requests: Amounts, capacity: Amounts) -> bool:
    return all(amount <= _amount(capacity, name) for name, amount in requests.items())


def _amount(capacity: Amounts, name: str) -> Decimal:
    return capacity.get(name, Decimal(name.startswith(HOST_PORT)))


def _group_shortage(group: PodGroup, nodes: Sequence[Json]) -> Shortage:
    pod, requests = group.pod, _ray_requests(group.pod)
    accepting = [node for node in nodes if _accepts(node, pod)]
    if not accepting:
        return Shortage(group.size_field, _no_node_accepts(group.name, nodes, pod), f"check {group.placement_fields}")
    problem = (
        f"{group.replicas} {group.name} Pod(s) with {_format_requests(requests)} each do not fit, with the job's other "
        f"Pods, on the {len(accepting)} node(s) that accept them, even if empty (largest allocatable: "
        f"{_largest(requests, accepting)}){_excluded(nodes, pod)}"
    )
    return Shortage(group.size_field, problem, f"lower {group.size_field} or add nodes")


def _no_node_accepts(pods: str, nodes: Sequence[Json], pod: Json) -> str:
    return f"none of the {len(nodes)} nodes accepts {pods} Pods{_excluded(nodes, pod)}"


def _excluded(nodes: Sequence[Json], pod: Json) -> str:
    return f" ({reasons})" if (reasons := excluded_nodes(nodes, pod)) else ""


def _format_requests(requests: Amounts) -> str:
    return ", ".join(format_quantity(name, requests[name]) for name in _shown_resources(requests))


def _largest(requests: Amounts, nodes: Sequence[Json]) -> str:
    """The most that any of `nodes` has of each resource."""
    capacities = [_allocatable(node) for node in nodes]
    return ", ".join(
        format_quantity(name, max(_amount(capacity, name) for capacity in capacities))
        for name in _shown_resources(requests)
    )


def _shown_resources(requests: Amounts) -> list[str]:
    return sorted(name for name in requests if name != "pods")
