"""Sources and outputs as volumes of a Pod.

Guarantees: the data of any kind of source is at the same path of the container, read-only where Kubernetes can enforce
it; a Hugging Face source is an empty folder there. The driver fills the folder of tasks, and downloads models to the
output instead, once for all Pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from swerl_api import SourceSpec
from swerl_api.pod_security import RESTRICTED
from swerl_api.volumes import OutputVolume
from swerl_kube import Json

HELPER_RESOURCES: Json = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"memory": "512Mi"},
}


@dataclass(frozen=True)
class PodVolumes:
    """Volumes, mounts and init containers that bring data to paths of a Pod."""

    volumes: list[Json]
    mounts: list[Json]
    init_containers: list[Json] = field(default_factory=list)
    pull_secrets: list[str] = field(default_factory=list)


def mount(name: str, path: str, *, read_only: bool = False) -> Json:
    """The mount of volume `name` at `path`."""
    return {"name": name, "mountPath": path} | ({"readOnly": True} if read_only else {})


def source_volumes(name: str, target: str, source: SourceSpec) -> PodVolumes:
    """`source` at path `target`; `name` (a DNS label) becomes the volume's name."""
    if source.persistent_volume_claim is not None:
        claim = source.persistent_volume_claim
        volume: Json = {"persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": True}}
        sub_path = {"subPath": claim.path} if claim.path else {}
        return PodVolumes([{"name": name, **volume}], [mount(name, target, read_only=True) | sub_path])
    if source.config_map is not None:
        volume = {"configMap": {"name": source.config_map.name}}
        return PodVolumes([{"name": name, **volume}], [mount(name, target, read_only=True)])
    folder = {"name": name, "emptyDir": {}}
    if source.image is None:
        return PodVolumes([folder], [mount(name, target)])
    copy = {
        "name": f"copy-{name}",
        "image": source.image.reference,
        # Not -a: without capabilities no user may give files away to the owners that they have in the image.
        "command": ["sh", "-c", 'cp -RP "$0/." "$1/"', source.image.path, target],
        "volumeMounts": [mount(name, target)],
        "securityContext": RESTRICTED,
        "resources": HELPER_RESOURCES,
    }
    return PodVolumes([folder], [mount(name, target, read_only=True)], [copy], list(source.image.pull_secrets))


def output_volumes(target: str, volume: OutputVolume, *, name: str = "output") -> PodVolumes:
    """An output volume at path `target`, writable; `name` (a DNS label) becomes the volume's name."""
    return PodVolumes([_output(name, volume)], [mount(name, target)])


def output_folder_volumes(target: str, volume: OutputVolume, folder: str, *, name: str) -> PodVolumes:
    """A folder of an output volume at path `target`, read-only; otherwise as in `output_volumes`."""
    return PodVolumes([_output(name, volume)], [mount(name, target, read_only=True) | {"subPath": folder}])


def config_map_volumes(name: str, target: str, config_map: str) -> PodVolumes:
    """A ConfigMap's keys as files below `target`."""
    return PodVolumes([{"name": name, "configMap": {"name": config_map}}], [mount(name, target, read_only=True)])


def shared_memory_volumes(size: str) -> PodVolumes:
    """/dev/shm of `size`; torch and Ray's object store live there."""
    volume = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return PodVolumes([volume], [mount("shared-memory", "/dev/shm")])


def merge_volumes(parts: Iterable[PodVolumes]) -> PodVolumes:
    """All `parts` in one. Each claim becomes one volume: a Pod with two volumes of the same claim never starts."""
    merged = PodVolumes([], [])
    by_claim: dict[str, Json] = {}  # claim name -> volume
    for part in parts:
        renamed: dict[str, str] = {}
        for volume in part.volumes:
            claim = volume.get("persistentVolumeClaim")
            if claim is None:
                merged.volumes.append(volume)
                continue
            known = by_claim.get(claim["claimName"])
            if known is None:
                known = by_claim[claim["claimName"]] = {**volume, "persistentVolumeClaim": dict(claim)}
                merged.volumes.append(known)
            elif not claim.get("readOnly"):
                known["persistentVolumeClaim"].pop("readOnly", None)  # source mounts stay read-only
            renamed[volume["name"]] = known["name"]
        merged.mounts.extend(_renamed(part.mounts, renamed))
        merged.init_containers.extend(
            container | {"volumeMounts": _renamed(container.get("volumeMounts", []), renamed)}
            for container in part.init_containers
        )
        merged.pull_secrets.extend(secret for secret in part.pull_secrets if secret not in merged.pull_secrets)
    return merged


def _renamed(mounts: list[Json], names: dict[str, str]) -> list[Json]:
    return [mount | {"name": names.get(mount["name"], mount["name"])} for mount in mounts]


def _output(name: str, volume: OutputVolume) -> Json:
    return {"name": name, **volume.model_dump(by_alias=True, exclude_none=True)}
