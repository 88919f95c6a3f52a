"""What the manifests of all kinds share: the owner reference and tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from swerl_api import API_VERSION, Toleration
from swerl_kube import Json


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


def toleration_manifests(tolerations: Iterable[Toleration]) -> list[Json]:
    """Tolerations as a Pod's manifest has them."""
    return [toleration.model_dump(by_alias=True, exclude_none=True) for toleration in tolerations]
