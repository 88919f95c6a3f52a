"""What users add to the Pods of a Ray group, in the form of a Pod's manifest. Pure.

Guarantees: nothing of ours is replaced, except that values of the user's `env`, `nodeSelector` and `affinity` win.
"""

from __future__ import annotations

from collections.abc import Mapping

from swerl_api import RayPodTemplate
from swerl_api.names import ROLE_LABEL
from swerl_api.pod_security import RESTRICTED, ROOT_USER
from swerl_api.pod_template import InitContainer, PodVolume, VolumeMount
from swerl_kube import Json
from swerl_plan.nodes import toleration_manifests

from .volumes import PodVolumes

HOST_NAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"  # labels of nodes
AFFINITY_WEIGHTS = {HOST_NAME: 100, ZONE: 50}


def template_volumes(template: RayPodTemplate) -> PodVolumes:
    """The volumes, mounts and init containers of `template`."""
    return PodVolumes(
        volumes=[_volume(volume) for volume in template.volumes],
        mounts=[_mount(mount) for mount in template.volume_mounts],
        init_containers=[_init_container(container) for container in template.init_containers],
    )


def with_template(manifest: Json, template: RayPodTemplate) -> Json:
    """`manifest`, a Pod template, with the rest of `template`: metadata, placement, device claims."""
    metadata, pod = manifest["metadata"], manifest["spec"]
    labels = {**template.labels, **metadata["labels"]}
    metadata = metadata | {"labels": labels} | ({"annotations": template.annotations} if template.annotations else {})
    placement: Json = {
        "nodeSelector": {**pod.get("nodeSelector", {}), **template.node_selector},
        "tolerations": _joined(pod.get("tolerations", []), toleration_manifests(template.tolerations)),
        "affinity": template.affinity or pod.get("affinity"),
        "topologySpreadConstraints": template.topology_spread_constraints,
        "priorityClassName": template.priority_class_name,
        "runtimeClassName": template.runtime_class_name,
    }
    pod = pod | {key: value for key, value in placement.items() if value or key in pod}
    if template.resource_claims:
        pod |= {"resourceClaims": [claim.model_dump(by_alias=True) for claim in template.resource_claims]}
        claims = [{"name": claim.name} for claim in template.resource_claims]
        ray, *others = pod["containers"]
        pod["containers"] = [ray | {"resources": ray["resources"] | {"claims": claims}}, *others]
    return {"metadata": metadata, "spec": pod}


def prefer_together(labels: Mapping[str, str], role: str) -> Json:
    """Affinity of Pods with `labels` and `role` to each other: on one node, else in one zone."""
    pods = {"matchLabels": {**labels, ROLE_LABEL: role}}
    terms = [
        {"weight": weight, "podAffinityTerm": {"labelSelector": pods, "topologyKey": key}}
        for key, weight in AFFINITY_WEIGHTS.items()
    ]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def _joined(ours: list[Json], theirs: list[Json]) -> list[Json]:
    return [*ours, *(one for one in theirs if one not in ours)]


def _volume(volume: PodVolume) -> Json:
    return volume.model_dump(by_alias=True, exclude_none=True)


def _mount(mount: VolumeMount) -> Json:
    return mount.model_dump(by_alias=True, exclude_defaults=True)


def _init_container(container: InitContainer) -> Json:
    security = RESTRICTED
    if container.capabilities:  # of a user other than root, the kernel gives a program none of them
        capabilities = {**RESTRICTED["capabilities"], "add": container.capabilities}
        security = RESTRICTED | {"capabilities": capabilities, "runAsUser": ROOT_USER, "runAsNonRoot": False}
    manifest: Json = {
        "name": container.name,
        "image": container.image,
        "command": container.command,
        "args": container.args,
        "env": [{"name": name, "value": value} for name, value in container.env.items()],
        "volumeMounts": [_mount(mount) for mount in container.volume_mounts],
        "resources": container.resources.model_dump(by_alias=True),
        "restartPolicy": container.restart_policy,
        "securityContext": security,
    }
    return {key: value for key, value in manifest.items() if value}
