"""What the manifests of all kinds share: the owner reference."""

from __future__ import annotations

from swerl_api import API_VERSION
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
