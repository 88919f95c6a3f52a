"""Sources and outputs as volumes of a Pod.

Guarantee: whatever the kind of source, its data stands at the same path of the Ray container, read-only where
Kubernetes can enforce it; a Hugging Face source is an empty folder there: the driver fills that of tasks, and downloads
models to the output instead, once for all Pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from swerl_api import SourceSpec
from swerl_api.volumes import OutputVolume

from .attempt import Object

# What a container that runs as root may do: nothing beyond files it owns.
RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
HELPER_RESOURCES: Object = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"memory": "512Mi"},
}


@dataclass(frozen=True)
class Placed:
    """What a Pod needs so that one source stands at a path."""

    volumes: list[Object]
    mounts: list[Object]
    init_containers: list[Object] = field(default_factory=list)
    pull_secrets: list[str] = field(default_factory=list)


def place_source(name: str, target: str, source: SourceSpec) -> Placed:
    """`source` at path `target`; `name` (a DNS label) becomes the volume's name."""
    if source.persistent_volume_claim is not None:
        claim = source.persistent_volume_claim
        volume: Object = {"persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": True}}
        sub_path = {"subPath": claim.path} if claim.path else {}
        return Placed([{"name": name, **volume}], [_mount(name, target, read_only=True) | sub_path])
    if source.config_map is not None:
        volume = {"configMap": {"name": source.config_map.name}}
        return Placed([{"name": name, **volume}], [_mount(name, target, read_only=True)])
    folder = {"name": name, "emptyDir": {}}
    if source.image is None:
        return Placed([folder], [_mount(name, target)])
    copy = {
        "name": f"copy-{name}",
        "image": source.image.reference,
        "command": ["sh", "-c", 'cp -a "$0/." "$1/"', source.image.path, target],
        "volumeMounts": [_mount(name, target)],
        "securityContext": RESTRICTED,
        "resources": HELPER_RESOURCES,
    }
    return Placed([folder], [_mount(name, target, read_only=True)], [copy], list(source.image.pull_secrets))


def place_output(target: str, volume: OutputVolume, *, name: str = "output") -> Placed:
    """An output volume at path `target`, writable; `name` (a DNS label) becomes the volume's name."""
    return Placed([_output(name, volume)], [_mount(name, target)])


def place_output_folder(target: str, volume: OutputVolume, folder: str, *, name: str) -> Placed:
    """A folder of an output volume at path `target`, read-only; the rest is as in `place_output`."""
    return Placed([_output(name, volume)], [_mount(name, target, read_only=True) | {"subPath": folder}])


def place_config_map(name: str, target: str, config_map: str) -> Placed:
    """A ConfigMap's keys as files below `target`."""
    return Placed([{"name": name, "configMap": {"name": config_map}}], [_mount(name, target, read_only=True)])


def place_shared_memory(size: str) -> Placed:
    """/dev/shm of `size`; torch and Ray's object store live there."""
    volume = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return Placed([volume], [_mount("shared-memory", "/dev/shm")])


def together(parts: Iterable[Placed]) -> Placed:
    """All parts as one. A claim becomes one volume however often it is named: a Pod with two of it never starts."""
    whole = Placed([], [])
    claimed: dict[str, Object] = {}  # by claim, its volume
    for part in parts:
        renamed: dict[str, str] = {}
        for volume in part.volumes:
            claim = volume.get("persistentVolumeClaim")
            if claim is None:
                whole.volumes.append(volume)
                continue
            known = claimed.get(claim["claimName"])
            if known is None:
                known = claimed[claim["claimName"]] = {**volume, "persistentVolumeClaim": dict(claim)}
                whole.volumes.append(known)
            elif not claim.get("readOnly"):
                known["persistentVolumeClaim"].pop("readOnly", None)  # the mounts of sources still are
            renamed[volume["name"]] = known["name"]
        whole.mounts.extend(mount | {"name": renamed.get(mount["name"], mount["name"])} for mount in part.mounts)
        whole.init_containers.extend(part.init_containers)
        whole.pull_secrets.extend(secret for secret in part.pull_secrets if secret not in whole.pull_secrets)
    return whole


def _output(name: str, volume: OutputVolume) -> Object:
    return {"name": name, **volume.model_dump(by_alias=True, exclude_none=True)}


def _mount(name: str, path: str, *, read_only: bool = False) -> Object:
    return {"name": name, "mountPath": path} | ({"readOnly": True} if read_only else {})
