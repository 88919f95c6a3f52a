"""Checks that volumes can be mounted on all the nodes that Ray Pods need, before any of the Pods is created.

Guarantees: only reads; a volume of one node (ReadWriteOnce) is a problem only where no single node could hold the Pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from swerl_api import JobReason
from swerl_kube import Json, KubeClient

from ..problem import Problem
from ..ray.cluster import RayClusterPlan
from .capacity import cluster_capacity_problem
from .prerequisites import Reference

SHARED = frozenset({"ReadWriteMany"})
WRITTEN = frozenset({"checkpoint.volume", "output.volume", "model.job (its checkpoint.volume)"})  # fields


async def volume_problems(
    api: KubeClient, namespace: str, references: Iterable[Reference], plan: RayClusterPlan, nodes: Sequence[Json]
) -> list[Problem]:
    """Problems with the claims among `references`, all of which the Pods of `plan` mount."""
    # In a thread: it looks at each node alone, 0.7 s for a thousand, and the event loop renews the Lease.
    if not await asyncio.to_thread(needs_several_nodes, plan, nodes):
        return []
    claims = [
        (field, found)
        for resource, name, field in dict.fromkeys(references)
        if resource == "persistentvolumeclaims" and (found := await api.find("v1", resource, namespace, name))
    ]
    return [problem for field, claim in claims if (problem := single_node_problem(field, claim)) is not None]


def needs_several_nodes(plan: RayClusterPlan, nodes: Sequence[Json]) -> bool:
    """Whether `nodes` together can hold the plan's Pods, but none of them alone can."""
    if cluster_capacity_problem(plan, nodes) is not None:
        return False
    return not any(cluster_capacity_problem(plan, [node]) is None for node in nodes)


def single_node_problem(field: str, claim: Json) -> Problem | None:
    """Why several nodes cannot mount the claim of spec.`field`; None when they can."""
    modes = claim["spec"].get("accessModes") or []
    read_only = frozenset({"ReadOnlyMany"}) if field not in WRITTEN else frozenset[str]()
    if (SHARED | read_only) & set(modes):
        return None
    text = (
        f"claim {claim['metadata']['name']!r} of spec.{field} is {', '.join(modes)}, but no single node "
        "can hold all Ray Pods; use a claim with ReadWriteMany (docs/clusters.md lists StorageClasses)"
    )
    return Problem(JobReason.VOLUME_NOT_SHARED, text)
