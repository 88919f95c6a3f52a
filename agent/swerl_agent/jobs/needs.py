"""What a SweRLJob names in its namespace and in registries, by the field that names it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from swerl_api import API_VERSION
from swerl_kube import Json


@dataclass(frozen=True)
class NamedObject:
    """An object that must exist before the job can start."""

    field: str
    kind: str
    api: str
    resource: str
    name: str
    namespaced: bool = True


def named_objects(spec: Json) -> list[NamedObject]:
    """Objects that the spec names."""
    return list(_objects(spec, "spec"))


def named_images(spec: Json) -> dict[str, str]:
    """Image by field: of the Ray Pods and of sources. Task images are listed by the tasks themselves."""
    return dict(_images(spec, "spec"))


def _objects(value: Any, path: str) -> Iterator[NamedObject]:
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _objects(inner, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        field = f"{path}.{key}"
        if key == "claimName":
            yield NamedObject(field, "PersistentVolumeClaim", "v1", "persistentvolumeclaims", str(inner))
        elif key == "configMap" and isinstance(inner, dict):
            yield NamedObject(f"{field}.name", "ConfigMap", "v1", "configmaps", str(inner.get("name")))
        elif key in ("pullSecrets", "envFromSecrets") and isinstance(inner, list):
            yield from (NamedObject(field, "Secret", "v1", "secrets", str(name)) for name in inner)
        elif key == "imageSet":
            yield NamedObject(field, "SweImageSet", API_VERSION, "sweimagesets", str(inner))
        elif key == "secretName":
            yield NamedObject(field, "Secret", "v1", "secrets", str(inner))
        elif key == "priorityClassName":
            yield NamedObject(
                field, "PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", str(inner), namespaced=False
            )
        elif key == "runtimeClassName":
            yield NamedObject(field, "RuntimeClass", "node.k8s.io/v1", "runtimeclasses", str(inner), namespaced=False)
        elif key == "queueName":
            yield NamedObject(field, "LocalQueue", "kueue.x-k8s.io/v1beta1", "localqueues", str(inner))
        else:
            yield from _objects(inner, field)


def _images(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _images(inner, f"{path}[{number}]")
    for key, inner in value.items() if isinstance(value, dict) else ():
        field = f"{path}.{key}"
        if key == "image" and isinstance(inner, str):
            yield field, inner
        elif key == "image" and isinstance(inner, dict) and "reference" in inner:
            yield f"{field}.reference", str(inner["reference"])
        else:
            yield from _images(inner, field)
