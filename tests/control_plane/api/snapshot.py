"""What is on the cluster at one time, to compare with another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from swerl_api import API_VERSION
from swerl_api.crd import KINDS
from swerl_kube import KubeClient

Json = dict[str, Any]
RBAC, NETWORKING = "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1"
MADE = {
    "pods": "v1", "services": "v1", "secrets": "v1", "configmaps": "v1", "serviceaccounts": "v1", "jobs": "batch/v1",
    "rayclusters": "ray.io/v1", "networkpolicies": NETWORKING, "roles": RBAC, "rolebindings": RBAC,
}  # fmt: skip
NAMESPACED = {**MADE, **{kind.plural: API_VERSION for kind in KINDS}, "persistentvolumeclaims": "v1"}
CLUSTER_WIDE = {
    "clusterroles": RBAC, "clusterrolebindings": RBAC, "runtimeclasses": "node.k8s.io/v1",
    "priorityclasses": "scheduling.k8s.io/v1", "storageclasses": "storage.k8s.io/v1",
    "validatingadmissionpolicies": "admissionregistration.k8s.io/v1",
}  # fmt: skip


async def snapshot(admin: KubeClient, release: str, namespaces: Iterable[str]) -> dict[str, str]:
    """Content of every object of the namespaces and of the cluster, by place and name.

    Objects of the cluster that other tests make and remove, with kubectl or helm, are left out.
    """
    places: list[tuple[str | None, dict[str, str]]] = [(None, CLUSTER_WIDE)]
    places += [(name, NAMESPACED) for name in namespaces]
    found = {}
    for namespace, kinds in places:
        for plural, api in kinds.items():
            for body in await admin.list(api, plural, namespace):
                name = body["metadata"]["name"]
                by_hand = any(one["manager"].startswith(("kubectl", "helm")) for one in _managers(body))
                if namespace or name.startswith(release) or not by_hand:
                    found[f"{namespace}/{plural}/{name}"] = _content(body)
    return found


def _managers(body: Json) -> list[Json]:
    return list(body["metadata"].get("managedFields", []))


def _content(body: Json) -> str:
    """The object without what changes by itself; an aggregated role has the rules of other releases, too."""
    metadata = {key: body["metadata"].get(key) for key in ("uid", "labels", "annotations", "ownerReferences")}
    left_out = {"metadata", "status"} | ({"rules"} if "aggregationRule" in body else set())
    fields = {key: value for key, value in body.items() if key not in left_out}
    return json.dumps([metadata, fields], sort_keys=True)
