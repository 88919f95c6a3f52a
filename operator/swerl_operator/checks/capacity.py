"""Checks that the nodes are large enough for a job before any of it is created.

Guarantees: pure; a problem is reported only when the job's Ray Pods together, or one Pod of an episode, would not fit
on empty nodes. Present use by others makes the job wait in the scheduler, never fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from swerl_api import JobReason
from swerl_api.quantity import Amounts, format_quantity, parse_amounts
from swerl_kube import Json

from ..problem import Problem, merge_problems
from ..ray.cluster import RayClusterPlan, RayGroup, pod_template
from .nodes import accepts, excluded_nodes, in_node_pools

# KubeRay adds an init container of this size to every worker (`wait-gcs-ready`), unless that is disabled.
KUBERAY_INIT: Amounts = parse_amounts({"cpu": "200m", "memory": "256Mi"})
HOST_PORT = "host port "  # prefix: each port of a node is a resource of which it has one
CHECKS = ("auto", "enforce", "warn", "off")  # values of the operator's --capacity-check


def apply_capacity_check(check: str, problems: Sequence[Problem], nodes: Sequence[Json]) -> Problem | None:
    """`problems` as one that blocks (`enforce`) or only warns (`warn`).

    `auto` blocks unless a node belongs to a node pool: an autoscaler may add the missing nodes there, also to a pool
    that has none now. What more nodes cannot mend blocks always.
    """
    if not problems:
        return None
    merged = merge_problems([*problems])
    if any(problem.reason != JobReason.INSUFFICIENT_RESOURCES for problem in problems):
        return merged  # an invalid quantity, a volume of one node
    if nodes_are_final(check, nodes):
        return replace(merged, message=f"{merged.message} (the operator's capacityCheck is {check!r})")
    text = f"{merged.message}; the Pods are created and wait for nodes (the operator's capacityCheck is {check!r})"
    return replace(merged, message=text, blocks=False)


def nodes_are_final(check: str, nodes: Sequence[Json]) -> bool:
    """Whether a job that does not fit `nodes` can be refused: no others are expected."""
    return check == "enforce" or (check == "auto" and not in_node_pools(nodes))


def cluster_capacity_problem(plan: RayClusterPlan, nodes: Sequence[Json]) -> Problem | None:
    """Why `nodes`, all empty, could not hold the plan's Pods together; None when they could."""
    available = [(node, _allocatable(node)) for node in nodes]
    pods = [(group, pod_template(plan, group)["spec"]) for group in plan.groups for _ in range(group.replicas)]
    pods.sort(key=lambda pod: sorted(_ray_requests(pod[1]).items(), key=_devices_first), reverse=True)
    for group, pod in pods:
        requests = _ray_requests(pod)
        accepting = (capacity for node, capacity in available if _accepts(node, pod))
        first_fit = next((capacity for capacity in accepting if _fits(requests, capacity)), None)
        if first_fit is None:
            return _group_problem(plan, group, pod, nodes)
        for name, amount in requests.items():
            first_fit[name] = _amount(first_fit, name) - amount
    return None


def pod_capacity_problem(kind: str, pod: Json, nodes: Sequence[Json]) -> Problem | None:
    """Why none of `nodes`, all empty, could hold `pod` alone, whose size is spec.<kind>.resources."""
    requests = pod_requests(pod)
    accepting = [node for node in nodes if _accepts(node, pod)]
    if any(_fits(requests, _allocatable(node)) for node in accepting):
        return None
    if not accepting:
        text = f"{_no_node_accepts(kind, nodes, pod)}; check spec.sandbox.nodeSelector and tolerations"
        runtime = pod.get("runtimeClassName")
        return _insufficient(f"{text}, and the scheduling of RuntimeClass {runtime!r}" if runtime else text)
    return _insufficient(
        f"not even one {kind} Pod with {_format_requests(requests)} fits one of the {len(accepting)} node(s) that "
        f"accept it, even when these are empty (largest allocatable: {_largest(requests, accepting)})"
        f"{_excluded(nodes, pod)}; lower spec.{kind}.resources or add nodes"
    )


def pod_requests(pod: Json) -> Amounts:
    """What the scheduler reserves: containers and sidecars together, or the largest init container if that is more;
    overhead; ports of the node."""
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


def _requests(container: Json) -> Amounts:
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


def _group_problem(plan: RayClusterPlan, group: RayGroup, pod: Json, nodes: Sequence[Json]) -> Problem:
    requests = _ray_requests(pod)
    accepting = [node for node in nodes if _accepts(node, pod)]
    if not accepting:
        fields = f"spec.{plan.spec_field}.nodeSelector and tolerations"
        if group.template.node_selector:
            fields += f", and spec.{plan.template_field(group)}"
        return _insufficient(f"{_no_node_accepts(group.name, nodes, pod)}; check {fields}")
    return _insufficient(
        f"{group.replicas} {group.name} Pod(s) with {_format_requests(requests)} each do not fit, with the job's other "
        f"Pods, on the {len(accepting)} node(s) that accept them, even if empty (largest allocatable: "
        f"{_largest(requests, accepting)}){_excluded(nodes, pod)}; lower spec.{group.spec_field} or add nodes"
    )


def _insufficient(text: str) -> Problem:
    return Problem(JobReason.INSUFFICIENT_RESOURCES, text)


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
