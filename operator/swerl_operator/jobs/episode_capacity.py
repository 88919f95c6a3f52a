"""Whether the nodes could hold an episode at all: one sandbox and one grading, before a Ray cluster is taken.

Guarantees: only reads; the Pods are asked for as they will be, with what the operator's settings and the RuntimeClass
add to them; one Pod of a kind that fits an empty node is enough, for the others merely wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import GradingSpec, JobReason, SandboxSpec, SweSandboxSpec

from ..context import Settings
from ..kube import Kube
from ..sandboxes import SandboxSettings
from ..sandboxes.facts import Group
from ..sandboxes.pods import sandbox_pod
from .attempt import Object
from .capacity import lone_pod_problem
from .problem import Problem


async def episode_problems(
    api: Kube, settings: Settings, sandbox: SandboxSpec, grading: GradingSpec, nodes: Sequence[Object]
) -> list[Problem]:
    """Why `nodes`, all empty, could not hold one sandbox, or one grading; empty when they could."""
    figures = SandboxSettings.asked(settings)
    found = []
    for kind in ("sandbox", "grading"):
        try:
            pod = _sandbox_pod(sandbox, figures) if kind == "sandbox" else _grading_pod(sandbox, grading)
            problem = lone_pod_problem(kind, await _with_runtime(api, pod), nodes)
        except ValueError as error:
            problem = Problem(JobReason.INVALID_SPEC, f"spec.{kind}.resources: {error}")
        found += [problem] if problem is not None else []
    return found


def _sandbox_pod(sandbox: SandboxSpec, settings: SandboxSettings) -> Object:
    """Spec of a sandbox Pod, whatever its task."""
    wish = SweSandboxSpec(
        image="task",
        resources=sandbox.resources,
        runtime_class_name=sandbox.runtime_class_name,
        node_selector=sandbox.node_selector,
        tolerations=sandbox.tolerations,
    )
    group = Group(("", "any"), "", 0, 0, 0.0, deleting=False, labels={}, spec=wish, status={})
    spec: Object = sandbox_pod(group, 0, settings)["spec"]
    return spec


def _grading_pod(sandbox: SandboxSpec, grading: GradingSpec) -> Object:
    """What counts for the scheduler of a grading Pod: it goes where sandboxes go, and its requests are its limits."""
    amounts = grading.resources.requests | grading.resources.limits
    pod: Object = {
        "nodeSelector": sandbox.node_selector,
        "tolerations": [each.model_dump(by_alias=True, exclude_none=True) for each in sandbox.tolerations],
        "containers": [{"resources": {"requests": amounts, "limits": amounts}}],
    }
    return pod | ({"runtimeClassName": sandbox.runtime_class_name} if sandbox.runtime_class_name else {})


async def _with_runtime(api: Kube, pod: Object) -> Object:
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
