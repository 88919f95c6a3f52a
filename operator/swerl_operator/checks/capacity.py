"""Checks that the nodes are large enough for a job before any of it is created.

Guarantees: pure; a problem is reported only when the job's Ray Pods together, or one Pod of an episode, would not fit
on empty nodes. Present use by others makes the job wait in the scheduler, never fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swerl_api import JobReason
from swerl_kube import Json
from swerl_plan.capacity import (
    PodGroup,
    Shortage,
    cluster_shortage,
    nodes_are_final,
    pod_shortage,
    refusal_words,
    waiting_words,
)
from swerl_plan.pods import placement_fields

from ..problem import Problem, merge_problems
from ..ray.cluster import RayClusterPlan, pod_template


def apply_capacity_check(check: str, problems: Sequence[Problem], nodes: Sequence[Json]) -> Problem | None:
    """`problems` as one that blocks (`enforce`) or only warns (`warn`).

    `auto` blocks unless a node belongs to a node pool: an autoscaler may add the missing nodes there, also to a pool
    that has none now. A problem that more nodes cannot fix always blocks.
    """
    if not problems:
        return None
    merged = merge_problems([*problems])
    if any(problem.reason != JobReason.INSUFFICIENT_RESOURCES for problem in problems):
        return merged  # an invalid quantity, a volume of one node
    if nodes_are_final(check, nodes):
        return replace(merged, message=refusal_words(check, merged.message))
    return replace(merged, message=waiting_words(check, merged.message), blocks=False)


def cluster_capacity_problem(plan: RayClusterPlan, nodes: Sequence[Json]) -> Problem | None:
    """Why `nodes`, all empty, could not hold the plan's Pods together; None when they could."""
    return _problem(cluster_shortage(pod_groups(plan), nodes))


def pod_capacity_problem(kind: str, pod: Json, nodes: Sequence[Json]) -> Problem | None:
    """Why none of `nodes`, all empty, could hold `pod` alone, whose size is spec.<kind>.resources."""
    return _problem(pod_shortage(kind, pod, nodes))


def pod_groups(plan: RayClusterPlan) -> list[PodGroup]:
    """The Pods of a Ray cluster, group by group."""
    return [
        PodGroup(
            group.name,
            group.replicas,
            pod_template(plan, group)["spec"],
            f"spec.{group.spec_field}",
            placement_fields(plan.spec_field, plan.template_field(group), group.template),
        )
        for group in plan.groups
    ]


def _problem(shortage: Shortage | None) -> Problem | None:
    return Problem(JobReason.INSUFFICIENT_RESOURCES, str(shortage)) if shortage else None
