"""The small objects of one attempt: job file, the driver's account and its rights."""

from __future__ import annotations

import json

from swerl_api.names import JOB_FILE, attempt_name

from .attempt import Attempt, Object


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
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _job_metadata(attempt),
        "automountServiceAccountToken": False,
    }


def role_binding(attempt: Attempt, cluster_role: str) -> Object:
    """Gives the driver `cluster_role` in the job's namespace and nowhere else."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _job_metadata(attempt),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
        "subjects": [{"kind": "ServiceAccount", "name": attempt.account, "namespace": attempt.namespace}],
    }


def _job_metadata(attempt: Attempt) -> Object:
    """Metadata of what all attempts share: no attempt label, so that cleaning up after one leaves it alone."""
    metadata = attempt.metadata(attempt.account)
    labels = {key: value for key, value in metadata["labels"].items() if not key.endswith("/attempt")}
    return metadata | {"labels": labels}
