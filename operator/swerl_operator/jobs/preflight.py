"""The preflight Pod: every image pulled and every source path found before a Ray cluster is made.

Guarantees: it asks for no GPU; it runs on the nodes of the Ray Pods, so that what it pulled is there when they start;
while an image is missing it stays, and the kubelet's own retries let the job go on as soon as the image appears.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from swerl_api import JobReason, SourceSpec
from swerl_api.names import ROLE_DRIVER
from swerl_api.pods import PodSettings

from .attempt import Attempt, Object
from .diagnosis import pull_problems, unschedulable_problem
from .problem import Problem, joined
from .raycluster import pull_secrets, tolerations
from .sources import HELPER_RESOURCES, RESTRICTED, place_source, together

LIFETIME_SECONDS = 86_400
FINGERPRINT = "swerl.dev/fingerprint"  # annotation: hash of the Pod's spec as asked for
VOLUME_ROOT = "/preflight"


@dataclass(frozen=True)
class Preflight:
    """What the Pod found so far."""

    state: Literal["waiting", "passed", "failed", "outdated"]
    problem: Problem | None = None


def preflight_pod(attempt: Attempt) -> Object:
    """The Pod that tries the attempt's images and sources."""
    metadata = attempt.metadata(attempt.preflight_name, ROLE_DRIVER)
    return checking_pod(metadata, "trainer", attempt.spec.trainer, _sources(attempt))


def checking_pod(
    metadata: Object,
    name: str,
    pods: PodSettings,
    sources: Mapping[str, SourceSpec],
    others: Mapping[str, PodSettings] | None = None,
    *,
    env: Sequence[Object] = (),
) -> Object:
    """One container per image, each looking for the paths it must hold.

    Container `name` has the image of `pods`, looks into the volumes and does not start when a Secret of `env` is
    missing; the images of `others` need only be there.
    """
    others = others or {}
    images = {name: source.image for name, source in sources.items() if source.image is not None}
    claims = {name: source for name, source in sources.items() if source.persistent_volume_claim is not None}
    volumes = [_claim_volume(claim, source) for claim, source in claims.items()]
    mounts = [{"name": claim, "mountPath": f"{VOLUME_ROOT}/{claim}", "readOnly": True} for claim in claims]
    paths = [_claim_path(claim, source) for claim, source in claims.items()]
    containers = [_container(name, pods.image, paths) | {"volumeMounts": mounts} | ({"env": [*env]} if env else {})]
    containers += [_container(source, image.reference, [image.path]) for source, image in images.items()]
    containers += [_container(other, settings.image, []) for other, settings in others.items()]
    placed = together(place_source(source, "/", sources[source]) for source in sources)
    secrets = dict.fromkeys(secret for one in (pods, *others.values()) for secret in pull_secrets(one, placed))
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LIFETIME_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": pods.node_selector,
        "tolerations": tolerations(pods),
        "imagePullSecrets": [{"name": secret} for secret in secrets],
        "containers": containers,
        "volumes": volumes,
    }
    annotated = metadata | {"annotations": {FINGERPRINT: _fingerprint(spec)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": annotated, "spec": spec}


def read_preflight(pod: Object, wanted: Object) -> Preflight:
    """What the Pod's status says; outdated when the job was changed since the Pod was made as `wanted` then was."""
    if pod["metadata"].get("annotations", {}).get(FINGERPRINT) != wanted["metadata"]["annotations"][FINGERPRINT]:
        return Preflight("outdated")
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return Preflight("passed")
    failures = [problem for entry in status.get("containerStatuses", []) if (problem := _failure(pod, entry))]
    if failures:
        return Preflight("failed", joined(failures))
    if status.get("phase") == "Failed":
        text = f"preflight Pod {pod['metadata']['name']} failed: {status.get('reason', '')} {status.get('message', '')}"
        return Preflight("failed", Problem(JobReason.PREFLIGHT_FAILED, text.strip()))
    obstacles = [*pull_problems(pod), *filter(None, [unschedulable_problem(pod)])]
    return Preflight("waiting", joined(obstacles) if obstacles else None)


def _fingerprint(spec: Object) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def _failure(pod: Object, entry: Object) -> Problem | None:
    terminated = entry.get("state", {}).get("terminated")
    if terminated is None or terminated["exitCode"] == 0:
        return None
    message = (terminated.get("message") or terminated.get("reason") or "").strip()
    text = f"image {entry['image']}: {message} (exit code {terminated['exitCode']} of container {entry['name']})"
    return Problem(JobReason.SOURCE_MISSING, text)


def _sources(attempt: Attempt) -> dict[str, SourceSpec]:
    spec = attempt.spec
    sources = {"model": spec.model.source, "tasks": spec.tasks.source}
    if spec.evaluation is not None:
        sources["evaluation"] = spec.evaluation.source
    if spec.judge is not None:
        sources["judge"] = spec.judge.model
    return sources


def _container(name: str, image: str, paths: list[str]) -> Object:
    script = 'for p; do [ -e "$p" ] || { echo "path $p does not exist" >/dev/termination-log; exit 1; }; done'
    return {
        "name": name,
        "image": image,
        "command": ["sh", "-c", script, "sh", *paths],
        "resources": HELPER_RESOURCES,
        "securityContext": RESTRICTED,
    }


def _claim_volume(name: str, source: SourceSpec) -> Object:
    assert source.persistent_volume_claim is not None
    claim = source.persistent_volume_claim.claim_name
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}


def _claim_path(name: str, source: SourceSpec) -> str:
    assert source.persistent_volume_claim is not None
    return f"{VOLUME_ROOT}/{name}/{source.persistent_volume_claim.path}".rstrip("/")
