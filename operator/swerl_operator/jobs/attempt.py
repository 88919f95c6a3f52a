"""One attempt of a SweRLJob: what every builder needs to know, and the names that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from swerl_api import API_VERSION, SweRLJobSpec
from swerl_api.names import (
    ATTEMPT_LABEL,
    JOB_LABEL,
    QUEUE_LABEL,
    ROLE_LABEL,
    attempt_name,
    driver_account,
    submission_id,
)

Object = dict[str, Any]


@dataclass(frozen=True)
class Attempt:
    """Attempt `number` (from 1) of the SweRLJob `job`."""

    namespace: str
    job: str
    uid: str  # of the SweRLJob
    number: int
    spec: SweRLJobSpec

    @property
    def name(self) -> str:
        """Name of its RayCluster, ConfigMap and Lease."""
        return attempt_name(self.job, self.number)

    @property
    def preflight_name(self) -> str:
        """Name of the Pod that tries images and sources."""
        return f"{self.name}-preflight"

    @property
    def submission(self) -> str:
        """Ray Jobs submission id of its driver."""
        return submission_id(self.uid, self.number)

    @property
    def account(self) -> str:
        """ServiceAccount of the driver."""
        return driver_account(self.job)

    def labels(self, role: str | None = None) -> dict[str, str]:
        """Labels of everything this attempt makes."""
        labels = {JOB_LABEL: self.job, ATTEMPT_LABEL: str(self.number)}
        if role is not None:
            labels[ROLE_LABEL] = role
        return labels

    def metadata(self, name: str, role: str | None = None) -> Object:
        """Metadata of an object that lives no longer than the SweRLJob."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(role),
            "ownerReferences": [owner_reference("SweRLJob", self.job, self.uid)],
        }

    def cluster_metadata(self) -> Object:
        """Metadata of the RayCluster; Kueue finds its queue there."""
        metadata = self.metadata(self.name)
        if self.spec.queue_name:
            metadata["labels"][QUEUE_LABEL] = self.spec.queue_name
        return metadata


def owner_reference(kind: str, name: str, uid: str) -> Object:
    """Makes the garbage collector delete an object after its owner, one of our kinds."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
