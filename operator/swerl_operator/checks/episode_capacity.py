"""Checks that the nodes are large enough for an episode (one sandbox, one grading) before a Ray cluster is created.

Guarantees: only reads; the Pods are checked with what the operator's settings and the RuntimeClass add to them; one Pod
of each kind must fit an empty node, the others can wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import GradingSpec, JobReason, SandboxSpec, SweSandboxSpec
from swerl_kube import Json, KubeClient
from swerl_plan.pods import grading_pod_size, with_runtime_class

from ..context import Settings
from ..problem import Problem
from ..sandboxes.manifests import sandbox_pod
from ..sandboxes.parsed import ParsedGroup
from ..sandboxes.settings import SandboxSettings
from .capacity import pod_capacity_problem


async def episode_capacity_problems(
    api: KubeClient, settings: Settings, sandbox: SandboxSpec, grading: GradingSpec, nodes: Sequence[Json]
) -> list[Problem]:
    """Why `nodes`, all empty, could not hold one sandbox or one grading; no problem when they could."""
    sandbox_settings = SandboxSettings.from_options(settings)
    problems = []
    for kind in ("sandbox", "grading"):
        try:
            pod = (
                sandbox_pod_spec(sandbox, sandbox_settings) if kind == "sandbox" else grading_pod_size(sandbox, grading)
            )
            problem = pod_capacity_problem(kind, await _with_runtime_class(api, pod), nodes)
        except ValueError as error:
            problem = Problem(JobReason.INVALID_SPEC, f"spec.{kind}.resources: {error}")
        if problem is not None:
            problems.append(problem)
    return problems


def sandbox_pod_spec(sandbox: SandboxSpec, settings: SandboxSettings) -> Json:
    """Spec of a sandbox Pod of any task."""
    spec = SweSandboxSpec(
        image="task",
        resources=sandbox.resources,
        runtime_class_name=sandbox.runtime_class_name,
        node_selector=sandbox.node_selector,
        tolerations=sandbox.tolerations,
    )
    group = ParsedGroup(("", "any"), "", 0, 0, 0.0, deleting=False, labels={}, spec=spec, status={})
    manifest: Json = sandbox_pod(group, 0, settings)["spec"]
    return manifest


async def _with_runtime_class(api: KubeClient, pod: Json) -> Json:
    """`pod` with what the API server adds to Pods of its RuntimeClass."""
    name = pod.get("runtimeClassName")
    return with_runtime_class(pod, await api.find("node.k8s.io/v1", "runtimeclasses", None, name) if name else None)
