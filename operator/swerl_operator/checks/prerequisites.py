"""Checks for what must exist before a job or an evaluation may take resources.

Guarantee: only reads, and never a Secret (the preflight Pod finds a missing one when it pulls or starts); it reports
every missing thing at once, each with the command or field that fixes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from swerl_api import (
    API_VERSION,
    ImageSetCondition,
    JobReason,
    SandboxSpec,
    SourceSpec,
    SweEvalSpec,
    SweImageSetStatus,
    SweRLJobSpec,
    find_condition,
)
from swerl_api.names import INSTALL_KUBERAY
from swerl_api.volumes import OutputVolume
from swerl_kube import KubeClient, NotFound

from ..problem import Problem
from ..ray.cluster import RAY_API

Reference = tuple[str, str, str]  # (resource, name, the field that names it)
HOST_PATHS = ("refuse", "allow")
COMMIT = re.compile(r"[0-9a-f]{40}")


async def missing_objects(
    api: KubeClient, namespace: str, references: Iterable[Reference], sandbox: SandboxSpec, cluster_role: str
) -> list[Problem]:
    """Problems with objects that a spec references, and with what its sandboxes and its processes need."""
    problems = []
    for resource, name, field in dict.fromkeys(references):
        if await api.find("v1", resource, namespace, name) is None:
            problems.append(_reference_missing(namespace, resource, name, field))
    runtime = sandbox.runtime_class_name
    if runtime and await api.find("node.k8s.io/v1", "runtimeclasses", None, runtime) is None:
        problems.append(_runtime_missing(runtime))
    if await api.find("rbac.authorization.k8s.io/v1", "clusterroles", None, cluster_role) is None:
        problems.append(_role_missing(cluster_role))
    return problems


def host_path_problems(setting: str, volumes: Iterable[tuple[str, OutputVolume]]) -> list[Problem]:
    """Problems with `volumes` (field, volume) that are folders of a node, unless `setting` is allow."""
    refused = [field for field, volume in volumes if volume.host_path is not None and setting != "allow"]
    return [Problem(JobReason.HOST_PATH_REFUSED, _host_path_refused(field)) for field in dict.fromkeys(refused)]


def egress_warning(sandbox: SandboxSpec) -> str:
    """Message of a valid spec whose sandboxes reach a network; empty for others."""
    if sandbox.egress == "none":
        return ""
    if sandbox.egress == "internet":
        return (
            "sandbox.egress is internet: commands of the model reach public addresses, where fixes of the tasks may be"
            " found; leave it none unless tasks need a network"
        )
    return (
        "sandbox.egress is allow: commands of the model reach the cluster, its nodes and the Internet, as far as the"
        " namespace's NetworkPolicies permit; leave it none unless tasks need a network"
    )


def floating_warning(spec: SweRLJobSpec | SweEvalSpec) -> str:
    """Message of a valid spec that names a branch or tag of Hugging Face; empty for others, such as evaluations."""
    if not isinstance(spec, SweRLJobSpec):
        return ""
    sources = {"model.source": spec.model.source, "tasks.source": spec.tasks.source}
    sources |= {"judge.model": spec.judge.model} if spec.judge else {}
    sources |= {"evaluation.source": spec.evaluation.source} if spec.evaluation else {}
    hubs = {field: source.hugging_face for field, source in sources.items() if source.hugging_face}
    floating = [f"{field} {hub.id}@{hub.revision}" for field, hub in hubs.items() if not COMMIT.fullmatch(hub.revision)]
    if not floating:
        return ""
    return (
        f"revisions float: {', '.join(floating)}; set huggingFace.revision to a commit (40 hexadecimal digits) to get"
        " the same files again"
    )


def validated_message(spec: SweRLJobSpec | SweEvalSpec) -> str:
    """What the author of a valid spec should know; empty for most."""
    newer = ""
    if spec.ignored_fields:
        fields = ", ".join(f"spec.{field}" for field in spec.ignored_fields)
        newer = f"this operator is older than the object's CRD and ignores {fields}; upgrade the chart"
    return "; ".join(filter(None, [egress_warning(spec.sandbox), floating_warning(spec), newer]))


async def image_set_problem(api: KubeClient, namespace: str, sandbox: SandboxSpec) -> Problem | None:
    """Why the sandboxes wait for the SweImageSet; None when it is Ready or the spec names none."""
    name = sandbox.image_set
    if name is None:
        return None
    found = await api.find(API_VERSION, "sweimagesets", namespace, name)
    if found is None:
        text = f"SweImageSet {name!r} named by spec.sandbox.imageSet does not exist in namespace {namespace!r}"
        return Problem(JobReason.IMAGE_SET_MISSING, f"{text}; create it there or leave the field out")
    status = SweImageSetStatus.model_validate(found.get("status") or {})
    ready = find_condition(status.conditions, ImageSetCondition.READY)
    if ready is not None and ready.status == "True":
        return None
    return Problem(
        JobReason.WAITING_FOR_IMAGES, f"SweImageSet {name}: {ready.message if ready else 'not reconciled yet'}"
    )


async def missing_kuberay(api: KubeClient) -> list[Problem]:
    """Empty when the cluster serves RayClusters."""
    try:
        served = await api.request("GET", f"/apis/{RAY_API}")
    except NotFound:
        return [_kuberay_missing()]
    serves = any(resource["name"] == "rayclusters" for resource in served.get("resources", []))
    return [] if serves else [_kuberay_missing()]


def volume_references(field: str, volume: OutputVolume) -> Iterator[Reference]:
    """What the output volume of `field` names."""
    if volume.persistent_volume_claim is not None:
        yield "persistentvolumeclaims", volume.persistent_volume_claim.claim_name, field


def source_references(field: str, source: SourceSpec) -> Iterator[Reference]:
    """What the source of `field` names."""
    if source.persistent_volume_claim is not None:
        yield "persistentvolumeclaims", source.persistent_volume_claim.claim_name, field
    if source.config_map is not None:
        yield "configmaps", source.config_map.name, field


_KINDS = {
    "persistentvolumeclaims": ("PersistentVolumeClaim", JobReason.VOLUME_CLAIM_MISSING),
    "configmaps": ("ConfigMap", JobReason.CONFIG_MAP_MISSING),
}


def _reference_missing(namespace: str, resource: str, name: str, field: str) -> Problem:
    kind, reason = _KINDS[resource]
    text = f"{kind} {name!r} named by spec.{field} does not exist in namespace {namespace!r}; create it there"
    return Problem(reason, text)


def _host_path_refused(field: str) -> str:
    return (
        f"spec.{field} is a hostPath, which gives the job's author the files of the node; use a persistentVolumeClaim, "
        "or let the cluster's administrator allow it: helm upgrade swe-rl charts/ --set hostPathVolumes=allow"
    )


def _kuberay_missing() -> Problem:
    text = f"the cluster does not serve {RAY_API} RayCluster; install KubeRay 1.6 or later: {INSTALL_KUBERAY}"
    return Problem(JobReason.KUBERAY_MISSING, text)


def _runtime_missing(name: str) -> Problem:
    text = (
        f"RuntimeClass {name!r} named by spec.sandbox.runtimeClassName does not exist; install that runtime on the "
        "nodes and create the RuntimeClass, or name one that `kubectl get runtimeclass` lists, or leave the field out"
    )
    return Problem(JobReason.RUNTIME_CLASS_MISSING, text)


def _role_missing(name: str) -> Problem:
    text = f"ClusterRole {name!r} for drivers does not exist; the chart has it: helm upgrade --install swe-rl charts/"
    return Problem(JobReason.ROLE_MISSING, text)
