"""Checks that the nodes are large enough for an episode (one sandbox, one grading) before a Ray cluster is created.

Guarantees: only reads; the Pods are checked with what the operator's settings and the RuntimeClass add to them; one Pod
of each kind must fit an empty node, the others can wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import GradingSpec, JobReason, SandboxSpec, SweSandboxSpec
from swerl_kube import Json, KubeClient

from ..context import Settings
from ..manifest import toleration_manifests
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
            pod = _sandbox_pod(sandbox, sandbox_settings) if kind == "sandbox" else _grading_pod(sandbox, grading)
            problem = pod_capacity_problem(kind, await _with_runtime_class(api, pod), nodes)
        except ValueError as error:
            problem = Problem(JobReason.INVALID_SPEC, f"spec.{kind}.resources: {error}")
        if problem is not None:
            problems.append(problem)
    return problems


def _sandbox_pod(sandbox: SandboxSpec, settings: SandboxSettings) -> Json:
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


def _grading_pod(sandbox: SandboxSpec, grading: GradingSpec) -> Json:
    """What the scheduler uses of a grading Pod: it runs where sandboxes run, and its requests are its limits."""
    amounts = grading.resources.requests | grading.resources.limits
    pod: Json = {
        "nodeSelector": sandbox.node_selector,
        "tolerations": toleration_manifests(sandbox.tolerations),
        "containers": [{"resources": {"requests": amounts, "limits": amounts}}],
    }
    return pod | ({"runtimeClassName": sandbox.runtime_class_name} if sandbox.runtime_class_name else {})


async def _with_runtime_class(api: KubeClient, pod: Json) -> Json:
    """`pod` with what the API server adds to Pods of its RuntimeClass."""
    name = pod.get("runtimeClassName")
    runtime = await api.find("node.k8s.io/v1", "runtimeclasses", None, name) if name else None
    if runtime is None:
        return pod
    scheduling = runtime.get("scheduling") or {}
    return pod | {
        "nodeSelector": {**(scheduling.get("nodeSelector") or {}), **(pod.get("nodeSelector") or {})},
        "tolerations": [*pod.get("tolerations", []), *(scheduling.get("tolerations") or [])],
        "overhead": (runtime.get("overhead") or {}).get("podFixed"),
    }
