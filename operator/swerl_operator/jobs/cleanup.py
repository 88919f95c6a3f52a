"""Everything that work leaves behind, by label: counted, and deleted.

Guarantee: needs nothing but the labels, so it works for attempts and evaluations this process never saw.
"""

from __future__ import annotations

from swerl_api import API_VERSION
from swerl_api.names import ATTEMPT_LABEL, JOB_LABEL

from ..errors import NotFound
from ..kube import Kube
from . import raycluster

# Owners before what they own, so that nothing is made again.
_KINDS = (
    (raycluster.API, "rayclusters"),
    (API_VERSION, "swesandboxes"),
    ("batch/v1", "jobs"),
    ("v1", "pods"),
)


async def count_leftovers(api: Kube, namespace: str, selector: str) -> int:
    """Objects with these labels."""
    total = 0
    for api_version, resource in _KINDS:
        try:
            total += len(await api.list(api_version, resource, namespace, labels=selector))
        except NotFound:
            continue  # the kind is not installed
    return total


async def delete_leftovers(api: Kube, namespace: str, selector: str) -> None:
    """Delete what `count_leftovers` counts, and the payloads and policies of grading Jobs with them."""
    for api_version, resource in (*_KINDS, ("v1", "configmaps"), ("networking.k8s.io/v1", "networkpolicies")):
        try:
            await api.delete_all(api_version, resource, namespace, labels=selector)
        except NotFound:
            continue


def of_attempts(job: str, keep: int | None) -> str:
    """Selector of what the job's attempts made, without attempt `keep`."""
    every = f"{JOB_LABEL}={job},{ATTEMPT_LABEL}"
    return every if keep is None else f"{every},{ATTEMPT_LABEL}!={keep}"
