"""What Kueue needs to know of a group's Pods, and what it says of them.

Kueue's webhook gates every Pod that carries a queue's name, and lifts the gates when the queue has room. Guarantees:
Pods of one group are one Kueue pod group, admitted as a unit; none of them is replaced, and Kueue is told so, or it
would hold the group's quota and the Pods' finalizers until a replacement came; a group never shares its pod group with
an earlier one of its name; a group without a queue's name is no business of Kueue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from swerl_api import names

from ..errors import Forbidden, NotFound
from .decide import View
from .parsed import Group, PodState

GATE = "kueue.x-k8s.io/admission"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
TOTAL_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
RETRIABLE_ANNOTATION = "kueue.x-k8s.io/retriable-in-group"
OWNER_LABEL = "kueue.x-k8s.io/job-uid"  # of the Workload of a single Pod
WORKLOAD_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")  # since Kueue 0.15, and before
UID_LENGTH = 8  # characters of it that part groups of one name
LABEL_LENGTH = 63


class Workloads(Protocol):
    """Who lists the objects of a kind that match the selectors; raises NotFound where there is no such kind."""

    async def list(
        self, api_version: str, resource: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[dict[str, Any]]: ...


def queue_labels(group: Group) -> dict[str, str]:
    """Labels by which Kueue finds the Pods' queue, their priority in it, and their group."""
    passed_on = (names.QUEUE_LABEL, names.QUEUE_PRIORITY_LABEL)
    found = {name: group.labels[name] for name in passed_on if name in group.labels}
    return found | {GROUP_LABEL: pod_group(group)} if _is_gang(group) else found


def queue_annotations(group: Group) -> dict[str, str]:
    """Annotations that say how many Pods the group has, and that a lost one stays lost."""
    if not _is_gang(group):
        return {}
    return {TOTAL_ANNOTATION: str(group.spec.replicas), RETRIABLE_ANNOTATION: "false"}


def pod_group(group: Group) -> str:
    """Name of the pod group, and of its Workload.

    Part of the UID is in it: a Workload that is finished but not collected yet would finish a namesake's Pods, too.
    """
    name = f"{names.SANDBOX_POD_PREFIX}{group.key[1]}"[: LABEL_LENGTH - UID_LENGTH - 1]
    return f"{name.rstrip('-.')}-{group.uid[:UID_LENGTH].rstrip('-')}"


async def with_queue_words(view: View, api: Workloads) -> View:
    """`view` with what Kueue says of the group, asked for in one request when its gates hold Pods of the group."""
    if names.QUEUE_LABEL not in view.group.labels:
        return view
    held = [pod for pod in view.pods.values() if pod.state is PodState.WAITING and GATE in pod.message]
    if not held:
        return view
    of_the_group = {"fields": f"metadata.name={pod_group(view.group)}"}
    selector = of_the_group if _is_gang(view.group) else {"labels": f"{OWNER_LABEL}={held[0].uid}"}
    for version in WORKLOAD_VERSIONS:
        try:
            found = await api.list(version, "workloads", view.group.key[0], **selector)
        except NotFound:
            continue
        except Forbidden:
            break
        return replace(view, queue_words=words(found[0]) if found else "")
    return view


def words(workload: Mapping[str, Any]) -> str:
    """Why Kueue does not admit this Workload; '' while it has not looked at it."""
    conditions = {c["type"]: c for c in (workload.get("status") or {}).get("conditions") or ()}
    for kind in ("QuotaReserved", "Admitted"):
        told = conditions.get(kind) or {}
        if told.get("status") == "False":
            return str(told.get("message") or "")
    return ""


def _is_gang(group: Group) -> bool:
    """A single Pod needs no group: Kueue admits it by itself, and lets go of it as soon as it is deleted."""
    return names.QUEUE_LABEL in group.labels and group.spec.replicas > 1
