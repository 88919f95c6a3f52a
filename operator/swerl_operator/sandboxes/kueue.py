"""Labels and annotations of a group's Pods for Kueue, and Kueue's message about them.

Kueue's webhook gates every Pod with a queue's name, and removes the gates when the queue has room. Guarantees: the Pods
of a group are one Kueue pod group, admitted as a unit; no Pod is replaced, and an annotation says so, because Kueue
would otherwise keep quota and finalizers until a replacement came; a group never shares its pod group with an earlier
one of its name; a group without a queue's name has neither labels nor annotations of Kueue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from swerl_api import names
from swerl_kube import Forbidden, NotFound

from .parsed import ParsedGroup, PodStage
from .store import GroupRecord

GATE = "kueue.x-k8s.io/admission"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
TOTAL_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
RETRIABLE_ANNOTATION = "kueue.x-k8s.io/retriable-in-group"
OWNER_LABEL = "kueue.x-k8s.io/job-uid"  # of the Workload of a single Pod
WORKLOAD_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")  # since Kueue 0.15, and before
UID_LENGTH = 8  # characters of it in the name, to distinguish groups of one name
LABEL_LENGTH = 63


class WorkloadLister(Protocol):
    """Lists the objects of a kind that match the selectors; raises NotFound where the kind is not installed."""

    async def list(
        self, api_version: str, resource: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[dict[str, Any]]: ...


def queue_labels(group: ParsedGroup) -> dict[str, str]:
    """Labels by which Kueue finds the Pods' queue, their priority in it, and their group."""
    copied = (names.QUEUE_LABEL, names.QUEUE_PRIORITY_LABEL)
    labels = {name: group.labels[name] for name in copied if name in group.labels}
    return labels | {GROUP_LABEL: pod_group(group)} if _is_pod_group(group) else labels


def queue_annotations(group: ParsedGroup) -> dict[str, str]:
    """Annotations with the number of Pods, and that a lost Pod is not replaced."""
    if not _is_pod_group(group):
        return {}
    return {TOTAL_ANNOTATION: str(group.spec.replicas), RETRIABLE_ANNOTATION: "false"}


def pod_group(group: ParsedGroup) -> str:
    """Name of the pod group, and of its Workload.

    It contains part of the UID: a finished Workload that is not collected yet would finish the Pods of a new group of
    the same name.
    """
    name = f"{names.SANDBOX_POD_PREFIX}{group.key[1]}"[: LABEL_LENGTH - UID_LENGTH - 1]
    return f"{name.rstrip('-.')}-{group.uid[:UID_LENGTH].rstrip('-')}"


async def queue_message(record: GroupRecord, api: WorkloadLister) -> str:
    """Why Kueue does not admit the group: one request if its gates hold Pods of the group, else none and ''."""
    group = record.existing_group
    if names.QUEUE_LABEL not in group.labels:
        return ""
    gated = [pod for pod in record.pods.values() if pod.stage is PodStage.WAITING and GATE in pod.message]
    if not gated:
        return ""
    by_name = {"fields": f"metadata.name={pod_group(group)}"}
    selector = by_name if _is_pod_group(group) else {"labels": f"{OWNER_LABEL}={gated[0].uid}"}
    for version in WORKLOAD_VERSIONS:
        try:
            workloads = await api.list(version, "workloads", group.key[0], **selector)
        except NotFound:
            continue
        except Forbidden:
            return ""
        return workload_message(workloads[0]) if workloads else ""
    return ""


def workload_message(workload: Mapping[str, Any]) -> str:
    """Why Kueue does not admit this Workload; '' while it has not considered it."""
    conditions = {c["type"]: c for c in (workload.get("status") or {}).get("conditions") or ()}
    for kind in ("QuotaReserved", "Admitted"):
        condition = conditions.get(kind) or {}
        if condition.get("status") == "False":
            return str(condition.get("message") or "")
    return ""


def _is_pod_group(group: ParsedGroup) -> bool:
    """A single Pod needs no group: Kueue admits it on its own, and releases it as soon as it is deleted."""
    return names.QUEUE_LABEL in group.labels and group.spec.replicas > 1
