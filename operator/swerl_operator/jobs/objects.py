"""The small objects of one attempt: job file, the driver's account and its rights."""

from __future__ import annotations

import json

from swerl_api.names import JOB_FILE, JOB_FILE_DIRECTORY, attempt_name

from .attempt import Attempt, Object
from .ray_jobs import Submission

ENTRYPOINT = f"python -m swerl_trainer.driver --job {JOB_FILE_DIRECTORY}/{JOB_FILE}"


def submission(attempt: Attempt) -> Submission:
    """The attempt's driver."""
    metadata = {"job": attempt.job, "namespace": attempt.namespace, "attempt": str(attempt.number)}
    return Submission(attempt.submission, ENTRYPOINT, metadata)


def job_file(attempt: Attempt) -> Object:
    """ConfigMap with job.json: everything the driver is told, defaults written out."""
    content = {
        "name": attempt.job,
        "namespace": attempt.namespace,
        "uid": attempt.uid,
        "attempt": attempt.number,
        "lease": attempt_name(attempt.job, attempt.number),
        "spec": attempt.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": attempt.metadata(attempt.name),
        "data": {JOB_FILE: json.dumps(content, indent=1, sort_keys=True)},
    }


def service_account(attempt: Attempt) -> Object:
    """The identity of the job's driver, the same for every attempt."""
    return account(_job_metadata(attempt))


def role_binding(attempt: Attempt, cluster_role: str) -> Object:
    """Gives the driver `cluster_role` in the job's namespace and nowhere else."""
    return binding(_job_metadata(attempt), cluster_role)


def account(metadata: Object) -> Object:
    """A ServiceAccount whose token only those Pods have that ask for it."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def binding(metadata: Object, cluster_role: str) -> Object:
    """Gives the ServiceAccount of the same name `cluster_role` in its namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
        "subjects": [{"kind": "ServiceAccount", "name": metadata["name"], "namespace": metadata["namespace"]}],
    }


def _job_metadata(attempt: Attempt) -> Object:
    """Metadata of what all attempts share: no attempt label, so that cleaning up after one leaves it alone."""
    metadata = attempt.metadata(attempt.account)
    labels = {key: value for key, value in metadata["labels"].items() if not key.endswith("/attempt")}
    return metadata | {"labels": labels}
