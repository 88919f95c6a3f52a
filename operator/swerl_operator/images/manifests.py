"""The Pod that pulls one image on one node, and the NetworkPolicy of a set's Pods.

Guarantees: the manifest names the node, so a full node pulls, too; an image that cannot run `true` counts as present;
an image that the node has, whatever its tag, causes no request to its registry; the garbage collector deletes the Pods
with their set. The Pod runs the image's `true`, which may be any program: it has no network, no token and no rights.
"""

from __future__ import annotations

import hashlib

from swerl_api import SweImageSetSpec
from swerl_api.names import IMAGE_SET_LABEL, PULL_PREFIX, ROLE_LABEL, ROLE_PULL
from swerl_api.pod_metadata import without_mesh
from swerl_kube import Json
from swerl_plan.nodes import toleration_manifests

from ..manifest import owner_reference
from .observe import PULL_CONTAINER, PullTarget

PULL_SECONDS = 3600  # limit of one pull
NOBODY = 65534  # user of the Pods


def pull_policy(owner: Json) -> Json:
    """No traffic in either direction for the Pods of the set `owner`."""
    metadata = owner["metadata"]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(owner, f"{PULL_PREFIX}{metadata['name']}"),
        "spec": {
            "podSelector": {"matchLabels": {IMAGE_SET_LABEL: metadata["name"]}},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


def pull_pod(owner: Json, spec: SweImageSetSpec, target: PullTarget) -> Json:
    """The Pod that pulls the image on the node."""
    node, image = target
    metadata = owner["metadata"]
    digest = hashlib.sha256(f"{node} {image}".encode()).hexdigest()[:12]
    small = {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": without_mesh(_metadata(owner, f"{PULL_PREFIX}{metadata['name']}-{digest}")),
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": PULL_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": toleration_manifests(spec.tolerations),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "imagePullSecrets": [{"name": name} for name in spec.image_pull_secrets],
            "containers": [
                {
                    "name": PULL_CONTAINER,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["true"],
                    "resources": small,
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def _metadata(owner: Json, name: str) -> Json:
    metadata = owner["metadata"]
    return {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": {ROLE_LABEL: ROLE_PULL, IMAGE_SET_LABEL: metadata["name"]},
        "ownerReferences": [owner_reference("SweImageSet", metadata["name"], metadata["uid"])],
    }
