"""What the manifests of all kinds share: the owner reference and tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from swerl_api import API_VERSION, Toleration
from swerl_kube import Json

# Platforms taint GPU nodes with the name of the device resource.
GPU_TOLERATIONS: tuple[Json, ...] = tuple(
    {"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", "amd.com/gpu")
)


def owner_reference(kind: str, name: str, uid: str) -> Json:
    """Makes the garbage collector delete an object after its owner, an object of one of the CRDs."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def toleration_manifests(tolerations: Iterable[Toleration], *, gpus: bool = False) -> list[Json]:
    """Tolerations as a Pod's manifest has them; with `gpus`, also of the taints that platforms put on GPU nodes."""
    given = [toleration.model_dump(by_alias=True, exclude_none=True) for toleration in tolerations]
    return [*given, *(dict(one) for one in GPU_TOLERATIONS if gpus and one not in given)]
