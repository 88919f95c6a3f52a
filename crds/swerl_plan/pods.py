"""What the scheduler uses of the Pods of a job, from its spec: requests, node selectors, tolerations.

Guarantee: pure; the operator's tests compare it with the manifests that the operator creates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swerl_api import GradingSpec, RayPodTemplate, Resources, SandboxSpec, SweRLJobSpec
from swerl_api.names import RAY_AGENT_PORT

from .capacity import PodGroup
from .nodes import Json, toleration_manifests

GPU = "nvidia.com/gpu"
# Requests of a sandbox for resources that its spec names neither in requests nor in limits.
SANDBOX_REQUESTS: Mapping[str, str] = {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "128Mi"}


def ray_pod_groups(spec: SweRLJobSpec) -> list[PodGroup]:
    """The job's Ray Pods: head, train, and engines and judges where they have Pods of their own."""
    trainer, rollout = spec.trainer, spec.rollout
    head = _group(spec, "head", 1, 0, trainer.head_resources, "trainer.headResources", trainer.head_pod_template)
    train = _group(spec, "train", trainer.replicas, trainer.gpus, trainer.resources, "trainer", trainer.pod_template)
    groups = [head, train]
    for name, replicas, gpus in _engines(spec):
        template = rollout.pod_template
        groups.append(_group(spec, name, replicas, gpus, rollout.resources, "rollout", template))
    return groups


def _engines(spec: SweRLJobSpec) -> list[tuple[str, int, int]]:
    """Name, replicas and GPUs of the groups of inference engines."""
    engines = [] if spec.colocate else [("engine", spec.rollout.engines, spec.rollout.gpus_per_engine)]
    return engines + ([("judge", spec.judge.engines, spec.judge.gpus_per_engine)] if spec.judge else [])


def _group(
    spec: SweRLJobSpec,
    name: str,
    replicas: int,
    gpus: int,
    resources: Resources,
    size: str,
    template: RayPodTemplate | None,
) -> PodGroup:
    """A group whose size is the field spec.`size`."""
    template_field = "trainer.headPodTemplate" if name == "head" else f"{size}.podTemplate"
    trainer, added = spec.trainer, template or RayPodTemplate()
    container: Json = {"resources": with_gpus(resources, gpus)}
    if trainer.host_network:
        container["ports"] = [{"containerPort": RAY_AGENT_PORT, "hostPort": RAY_AGENT_PORT}]
    before = [
        {"resources": each.resources.model_dump(by_alias=True), "restartPolicy": each.restart_policy}
        for each in added.init_containers
    ]
    pod: Json = {
        "nodeSelector": {**trainer.node_selector, **added.node_selector},
        "tolerations": [
            *toleration_manifests(trainer.tolerations, gpus=bool(gpus)),
            *toleration_manifests(added.tolerations),
        ],
        "initContainers": before,
        "containers": [container],
    }
    return PodGroup(name, replicas, pod, f"spec.{size}", placement_fields("trainer", template_field, added))


def placement_fields(pods_field: str, template_field: str, template: RayPodTemplate) -> str:
    """The fields that choose the nodes of a group with `template`, in words."""
    fields = f"spec.{pods_field}.nodeSelector and tolerations"
    return f"{fields}, and spec.{template_field}" if template.node_selector else fields


def with_gpus(resources: Resources, gpus: int) -> Json:
    """Requests and limits of a Ray container, GPUs included."""
    devices: Json = {GPU: gpus} if gpus else {}
    return {"requests": resources.requests | devices, "limits": resources.limits | devices}


def sandbox_requests(resources: Resources, defaults: Mapping[str, str] = SANDBOX_REQUESTS) -> dict[str, str | int]:
    """What a sandbox requests. Where only a limit is given, the request is the same, as everywhere in Kubernetes."""
    return {**defaults, **resources.limits, **resources.requests}


def sandbox_pod_size(sandbox: SandboxSpec) -> Json:
    """A sandbox Pod without what the operator's settings add to it."""
    return _episode_pod(sandbox, {"requests": sandbox_requests(sandbox.resources)})


def grading_pod_size(sandbox: SandboxSpec, grading: GradingSpec) -> Json:
    """A grading Pod: it runs where sandboxes run, and its requests are its limits."""
    amounts = grading.resources.requests | grading.resources.limits
    return _episode_pod(sandbox, {"requests": amounts, "limits": amounts})


def _episode_pod(sandbox: SandboxSpec, resources: Mapping[str, Any]) -> Json:
    pod: Json = {
        "nodeSelector": sandbox.node_selector,
        "tolerations": toleration_manifests(sandbox.tolerations),
        "containers": [{"resources": resources}],
    }
    return pod | ({"runtimeClassName": sandbox.runtime_class_name} if sandbox.runtime_class_name else {})


def with_runtime_class(pod: Json, runtime: Mapping[str, Any] | None) -> Json:
    """`pod` with what the API server adds to Pods of its RuntimeClass."""
    if runtime is None:
        return pod
    scheduling = runtime.get("scheduling") or {}
    added: Sequence[Json] = scheduling.get("tolerations") or []
    return pod | {
        "nodeSelector": {**(scheduling.get("nodeSelector") or {}), **(pod.get("nodeSelector") or {})},
        "tolerations": [*pod.get("tolerations", []), *added],
        "overhead": (runtime.get("overhead") or {}).get("podFixed"),
    }
