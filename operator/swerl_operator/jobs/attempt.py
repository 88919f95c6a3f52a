"""One attempt of a SweRLJob, and the names of the objects created for it."""

from __future__ import annotations

from dataclasses import dataclass

from swerl_api import SweRLJobSpec
from swerl_api.names import (
    ATTEMPT_LABEL,
    JOB_LABEL,
    QUEUE_LABEL,
    ROLE_DRIVER,
    ROLE_ENGINE,
    ROLE_LABEL,
    ROLE_TRAIN,
    attempt_name,
    driver_account,
    submission_id,
)
from swerl_kube import Json

from ..manifest import owner_reference


@dataclass(frozen=True)
class Attempt:
    """Attempt `number` (from 1) of the SweRLJob `job`."""

    namespace: str
    job: str
    uid: str  # of the SweRLJob
    number: int
    spec: SweRLJobSpec
    retry_of: str = ""  # the attempt after whose failure a user requests another one

    @property
    def name(self) -> str:
        """Name of its RayCluster, ConfigMap and Lease."""
        return attempt_name(self.job, self.number)

    @property
    def preflight_name(self) -> str:
        """Name of the preflight Pod."""
        return f"{self.name}-preflight"

    @property
    def submission(self) -> str:
        """Ray Jobs submission id of its driver."""
        return submission_id(self.uid, self.number)

    @property
    def account(self) -> str:
        """ServiceAccount of the driver."""
        return driver_account(self.job)

    @property
    def policy(self) -> str:
        """NetworkPolicy of the Ray Pods of all attempts."""
        return f"{self.job}-ray"

    @property
    def shared_labels(self) -> dict[str, str]:
        """Labels of what all attempts share: no attempt label, so that the clean-up of one attempt keeps it."""
        return {JOB_LABEL: self.job}

    @property
    def ray_pods_selector(self) -> str:
        """Selects the Pods of its RayCluster."""
        roles = f"{ROLE_LABEL} in ({ROLE_DRIVER},{ROLE_TRAIN},{ROLE_ENGINE})"
        return f"{JOB_LABEL}={self.job},{ATTEMPT_LABEL}={self.number},{roles},ray.io/cluster={self.name}"

    def labels(self, role: str | None = None) -> dict[str, str]:
        """Labels of everything created for this attempt."""
        labels = {JOB_LABEL: self.job, ATTEMPT_LABEL: str(self.number)}
        if role is not None:
            labels[ROLE_LABEL] = role
        return labels

    def metadata(self, name: str, role: str | None = None) -> Json:
        """Metadata of an object that lives no longer than the SweRLJob."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(role),
            "ownerReferences": [owner_reference("SweRLJob", self.job, self.uid)],
        }

    def shared_metadata(self, name: str) -> Json:
        """Metadata of what all attempts share."""
        return self.metadata(name) | {"labels": self.shared_labels}

    def cluster_metadata(self) -> Json:
        """Metadata of the RayCluster; Kueue finds its queue there."""
        metadata = self.metadata(self.name)
        if self.spec.queue_name:
            metadata["labels"][QUEUE_LABEL] = self.spec.queue_name
        return metadata


def attempts_selector(job: str, *, without: int | None = None) -> str:
    """Selects what was created for the job's attempts, except for attempt `without`."""
    every = f"{JOB_LABEL}={job},{ATTEMPT_LABEL}"
    return every if without is None else f"{every},{ATTEMPT_LABEL}!={without}"
