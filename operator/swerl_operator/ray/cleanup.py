"""Counts and deletes the objects of attempts and evaluations by label.

Guarantee: the labels are enough, so it works for attempts and evaluations that this process never reconciled.
"""

from __future__ import annotations

from swerl_api import API_VERSION
from swerl_kube import KubeClient, NotFound

from .cluster import RAY_API

# Owners before their dependents, so that nothing is created again.
_KINDS = (
    (RAY_API, "rayclusters"),
    (API_VERSION, "swesandboxes"),
    ("batch/v1", "jobs"),
    ("v1", "pods"),
)


async def count_leftovers(api: KubeClient, namespace: str, selector: str) -> int:
    """Objects with these labels."""
    total = 0
    for api_version, resource in _KINDS:
        try:
            total += len(await api.list(api_version, resource, namespace, labels=selector))
        except NotFound:
            continue  # the kind is not installed
    return total


async def delete_leftovers(api: KubeClient, namespace: str, selector: str) -> None:
    """Delete what `count_leftovers` counts, and the payloads and policies of grading Jobs with them."""
    for api_version, resource in (*_KINDS, ("v1", "configmaps"), ("networking.k8s.io/v1", "networkpolicies")):
        try:
            await api.delete_all(api_version, resource, namespace, labels=selector)
        except NotFound:
            continue
