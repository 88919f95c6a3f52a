"""The Pods that pull: one for an image on a node, which runs nothing of the image but `true`.

Guarantees: the node is named, not scheduled, so a full node pulls too; an image that cannot even run `true` counts as
there, and so does one that the node has, whatever its tag, without a word to its registry; the Pods go with their set.
"""

from __future__ import annotations

import hashlib
from typing import Any

from swerl_api import API_VERSION, SweImageSetSpec
from swerl_api.images import PULL_REASONS, START_REASONS
from swerl_api.names import IMAGE_SET_LABEL, PULL_PREFIX, ROLE_LABEL, ROLE_PULL

from .plan import Place, Pull

Object = dict[str, Any]
PULL_SECONDS = 3600  # of one try


def pull_pod(owner: Object, spec: SweImageSetSpec, place: Place) -> Object:
    """The Pod that brings the image to the node."""
    node, image = place
    metadata = owner["metadata"]
    digest = hashlib.sha256(f"{node} {image}".encode()).hexdigest()[:12]
    reference = {
        "apiVersion": API_VERSION, "kind": "SweImageSet", "name": metadata["name"], "uid": metadata["uid"],
        "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip
    small = {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{PULL_PREFIX}{metadata['name']}-{digest}",
            "namespace": metadata["namespace"],
            "labels": {ROLE_LABEL: ROLE_PULL, IMAGE_SET_LABEL: metadata["name"]},
            "ownerReferences": [reference],
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": PULL_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": name} for name in spec.image_pull_secrets],
            "containers": [
                {
                    "name": "pull",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["true"],
                    "resources": small,
                }
            ],
        },
    }


def read_pull(pod: Object) -> Pull:
    """What the Pod's status says."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    spec, status = pod["spec"], pod.get("status") or {}
    place = (str(spec.get("nodeName")), str(spec["containers"][0]["image"]))
    for entry in status.get("containerStatuses") or []:
        state = entry.get("state") or {}
        waiting = state.get("waiting") or {}
        if state.get("terminated") or state.get("running") or waiting.get("reason") in START_REASONS:
            return Pull(name, uid, place, "pulled")
        if waiting.get("reason") in PULL_REASONS:
            return Pull(name, uid, place, "failed", f"{waiting['reason']}: {waiting.get('message') or ''}".rstrip(": "))
    if status.get("phase") == "Failed":
        return Pull(name, uid, place, "failed", f"{status.get('reason')}: {status.get('message') or ''}".rstrip(": "))
    return Pull(name, uid, place, "running")
