"""The ServiceAccount of a driver, and its rights. Pure."""

from __future__ import annotations

from swerl_kube import Json


def service_account(metadata: Json) -> Json:
    """A ServiceAccount; only Pods that request its token get one."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def role_binding(metadata: Json, cluster_role: str) -> Json:
    """Gives the ServiceAccount of the same name `cluster_role` in its namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
        "subjects": [{"kind": "ServiceAccount", "name": metadata["name"], "namespace": metadata["namespace"]}],
    }
