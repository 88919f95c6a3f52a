"""Checks what users add to Ray Pods (podTemplate, hostNetwork) before a Ray cluster is created.

Guarantees: nothing is created: the API server admits or refuses one Pod of each group in a dry run, so every problem is
with its own message. A quota that is used up at present is not a problem: the Pods wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from swerl_api import JobReason, RayPodTemplate
from swerl_kube import ApiError, Json, KubeClient, resource_path

from ..problem import Problem
from ..ray.cluster import RayClusterPlan, RayGroup, pod_template
from .prerequisites import Reference, host_path_problems, volume_references

DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
# Refusals that say nothing about the Pod: a quota may have room later, a webhook may not know dry runs.
_PASSING = ("exceeded quota", "does not support dry run")


def template_references(plan: RayClusterPlan) -> Iterator[Reference]:
    """Namespaced objects that the templates of `plan` name."""
    for field, template in _templates(plan):
        for volume in template.volumes:
            yield from volume_references(f"{field}.volumes", volume)
            if volume.config_map is not None:
                yield "configmaps", volume.config_map.name, f"{field}.volumes"


async def template_problems(api: KubeClient, plan: RayClusterPlan, host_paths: str) -> list[Problem]:
    """Why Pods of `plan` with a template, or on their nodes' network, would be refused. `host_paths`: the operator's
    setting."""
    problems = _host_problems(plan, host_paths)
    if problems:
        return problems
    empty = RayPodTemplate()
    groups = [group for group in plan.groups if group.template != empty or plan.pods.host_network]
    refused = [await _refusal(api, plan, group) for group in groups]
    return [problem for problem in refused if problem is not None]


def _templates(plan: RayClusterPlan) -> Iterator[tuple[str, RayPodTemplate]]:
    return ((plan.template_field(group), group.template) for group in plan.groups)


def _host_problems(plan: RayClusterPlan, setting: str) -> list[Problem]:
    """What gives the job's author a node, unless `setting` is allow."""
    volumes = [(f"{field}.volumes", volume) for field, template in _templates(plan) for volume in template.volumes]
    problems = host_path_problems(setting, volumes)
    if setting == "allow":
        return problems
    fields = [f"{plan.spec_field}.hostNetwork"] if plan.pods.host_network else []
    fields += [
        f"{field}.initContainers[{container.name}].capabilities"
        for field, template in _templates(plan)
        for container in template.init_containers
        if container.capabilities
    ]
    return problems + [Problem(JobReason.HOST_PATH_REFUSED, _refused_text(field)) for field in dict.fromkeys(fields)]


def _refused_text(field: str) -> str:
    return (
        f"spec.{field} gives the job's author rights on the node; leave it out, or let the cluster's administrator "
        "allow it: helm upgrade swe-rl charts/ --set hostPathVolumes=allow"
    )


async def _refusal(api: KubeClient, plan: RayClusterPlan, group: RayGroup) -> Problem | None:
    body = _pod(plan, group)
    path = resource_path("v1", "pods", plan.metadata["namespace"])
    try:
        await api.request("POST", path, body=body, query=DRY_RUN)
    except ApiError as error:
        if any(text in error.message for text in _PASSING):
            return None
        field = plan.template_field(group)
        text = f"a {group.name} Pod is refused: {error.message}; change spec.{field}, or the policy that refuses it"
        return Problem(JobReason.POD_REFUSED, text)
    return None


def _pod(plan: RayClusterPlan, group: RayGroup) -> Json:
    """One Pod of `group`, without its ServiceAccount, which may not exist yet."""
    template = pod_template(plan, group)
    owners = {"ownerReferences": plan.metadata["ownerReferences"]}
    metadata = {**template["metadata"], **owners, "generateName": f"{plan.metadata['name']}-{group.name}-"}
    spec = {key: value for key, value in template["spec"].items() if key != "serviceAccountName"}
    spec["automountServiceAccountToken"] = False
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
