"""What must exist before a job may start.

Guarantee: only reads; it reports every missing thing at once, each with the command or field that puts it right.
"""

from __future__ import annotations

from collections.abc import Iterator

from swerl_api import SweRLJobSpec
from swerl_kube import KubeClient

from ..checks.pod_templates import template_problems, template_references
from ..checks.prerequisites import (
    Reference,
    host_path_problems,
    missing_kuberay,
    missing_objects,
    source_references,
    volume_references,
)
from ..context import Settings
from ..problem import Problem
from .attempt import Attempt
from .manifests import cluster_plan


async def missing_prerequisites(api: KubeClient, attempt: Attempt, settings: Settings) -> list[Problem]:
    """Problems that keep `attempt` from starting; empty when everything is there."""
    spec, role = attempt.spec, settings.driver_cluster_role
    found = await missing_kuberay(api)
    found += host_path_problems(settings.host_path_volumes, [("checkpoint.volume", spec.checkpoint.volume)])
    plan = cluster_plan(attempt)
    named = [*references(spec), *template_references(plan)]
    found += await missing_objects(api, attempt.namespace, named, spec.sandbox, role)
    return found + await template_problems(api, plan, settings.host_path_volumes)


def references(spec: SweRLJobSpec) -> Iterator[Reference]:
    """Namespaced objects that the spec names and all Ray Pods, or the head, mount."""
    yield from source_references("model.source", spec.model.source)
    yield from source_references("tasks.source", spec.tasks.source)
    if spec.evaluation is not None:
        yield from source_references("evaluation.source", spec.evaluation.source)
    if spec.judge is not None:
        yield from source_references("judge.model", spec.judge.model)
    yield from volume_references("checkpoint.volume", spec.checkpoint.volume)
    if spec.agent.prompt_templates is not None:
        yield "configmaps", spec.agent.prompt_templates.config_map.name, "agent.promptTemplates"
