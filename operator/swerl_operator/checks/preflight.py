"""The preflight Pod: before a Ray cluster is created it pulls images, checks source paths and downloads models.

Guarantees: it requests no GPU; it runs on the nodes of the Ray Pods, so that they find the images it pulled; it stays
while an image is missing, and the kubelet's retries let the job go on as soon as the image appears.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from swerl_api import JobReason, SourceSpec
from swerl_api.names import DOWNLOAD_FAILED_CODE
from swerl_api.pod_metadata import without_mesh
from swerl_api.pod_security import RESTRICTED, pod_security
from swerl_api.pods import PodSettings
from swerl_api.source import VolumeClaimSource
from swerl_kube import Json
from swerl_plan.nodes import toleration_manifests

from ..problem import Problem, merge_problems
from ..ray.cluster import container_environment, pull_secrets, secret_environment
from ..ray.volumes import HELPER_RESOURCES, PodVolumes, merge_volumes, mount, source_volumes
from .pods import pull_problems, unschedulable_problem

LIFETIME_SECONDS = 86_400
FINGERPRINT = "swerl.dev/fingerprint"  # annotation: hash of the Pod's spec in its manifest
MISSING = "does not exist, or the Pods' user (runAsUser) may not see it"
VOLUME_ROOT = "/preflight"
DOWNLOAD_RESOURCES: Json = {
    "requests": {"cpu": "100m", "memory": "512Mi"},
    "limits": {"memory": "4Gi"},
}


@dataclass(frozen=True)
class Preflight:
    """The result of the Pod so far."""

    state: Literal["waiting", "passed", "failed", "outdated"]
    problem: Problem | None = None
    ended: str | None = None  # when the last container of a failed one ended
    message: str = ""  # of one that passed: what its download reports


@dataclass(frozen=True)
class PreflightDownload:
    """What the container of the Pods' image downloads after its checks."""

    command: Sequence[str]  # exits with DOWNLOAD_FAILED_CODE on failure; its termination message is reason or result
    volumes: Sequence[PodVolumes]


def preflight_pod(
    metadata: Json,
    name: str,
    pods: PodSettings,
    sources: Mapping[str, SourceSpec],
    others: Mapping[str, PodSettings] | None = None,
    *,
    user: int,
    env: Sequence[Json] = (),
    gpus: bool = False,
    download: PreflightDownload | None = None,
) -> Json:
    """One container per image; each checks the paths that its image must hold.

    Container `name` has the image of `pods`, checks the volumes and runs `download`; without a Secret of `env` or of
    `pods` it does not start.
    The images of `others` are only pulled. `user`: that of the Pods that it precedes. `gpus`: it may run on GPU nodes,
    as those Pods.
    """
    others = others or {}
    images = {name: source.image for name, source in sources.items() if source.image is not None}
    claims = [source.persistent_volume_claim for source in sources.values() if source.persistent_volume_claim]
    mounted = merge_volumes([*_claim_volumes(claims), *(download.volumes if download else ())])
    paths = [f"{VOLUME_ROOT}/{claim.claim_name}/{claim.path}".rstrip("/") for claim in claims]
    checked = _container(name, pods.image, paths, download) | {"volumeMounts": mounted.mounts}
    checked |= container_environment(pods, {}) if download else secret_environment(pods)
    checked |= {"env": [*env, *checked.get("env", ())]} if env else {}
    containers = [checked]
    containers += [_container(source, image.reference, [image.path]) for source, image in images.items()]
    containers += [_container(other, settings.image, []) for other, settings in others.items()]
    merged = merge_volumes(source_volumes(source, "/", sources[source]) for source in sources)
    secrets = dict.fromkeys(secret for one in (pods, *others.values()) for secret in pull_secrets(one, merged))
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LIFETIME_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(user),
        "nodeSelector": pods.node_selector,
        "tolerations": toleration_manifests(pods.tolerations, gpus=gpus),
        "imagePullSecrets": [{"name": secret} for secret in secrets],
        "containers": containers,
        "volumes": mounted.volumes,
    }
    annotated = metadata | {"annotations": {FINGERPRINT: _fingerprint(spec)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": without_mesh(annotated), "spec": spec}


def read_preflight(pod: Json, manifest: Json) -> Preflight:
    """The result of `pod`; outdated when it was created from another manifest than `manifest`."""
    if pod["metadata"].get("annotations", {}).get(FINGERPRINT) != manifest["metadata"]["annotations"][FINGERPRINT]:
        return Preflight("outdated")
    status = pod.get("status", {})
    own = {container["name"] for container in manifest["spec"]["containers"]}
    containers = [one for one in status.get("containerStatuses", []) if one["name"] in own]
    failures = [*filter(None, map(_failure, containers))]
    if len(containers) == len(own) and not failures and all(map(_has_ended, containers)):
        return Preflight("passed", message=_message(containers, manifest))  # whatever containers a webhook has added
    if failures:
        ends = [
            container["state"]["terminated"].get("finishedAt", "") for container in containers if _has_ended(container)
        ]
        return Preflight("failed", merge_problems(failures), max(ends) or None)
    if status.get("phase") == "Failed":
        text = f"preflight Pod {pod['metadata']['name']} failed: {status.get('reason', '')} {status.get('message', '')}"
        return Preflight("failed", Problem(JobReason.PREFLIGHT_FAILED, text.strip()))
    problems = [*pull_problems(pod), *filter(None, [unschedulable_problem(pod)])]
    return Preflight("waiting", merge_problems(problems) if problems else None)


def _fingerprint(spec: Json) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def _has_ended(container: Json) -> bool:
    return "terminated" in container.get("state", {})


def _message(containers: Sequence[Json], manifest: Json) -> str:
    """What the container of the Pods' image, the first one, wrote at its end."""
    first = manifest["spec"]["containers"][0]["name"]
    return next((one["state"]["terminated"].get("message") or "" for one in containers if one["name"] == first), "")


def _failure(container: Json) -> Problem | None:
    terminated = container.get("state", {}).get("terminated")
    if terminated is None or terminated["exitCode"] == 0:
        return None
    message = (terminated.get("message") or terminated.get("reason") or "").strip()
    if terminated["exitCode"] == DOWNLOAD_FAILED_CODE and message:
        return Problem(JobReason.DOWNLOAD_FAILED, message)
    text = (
        f"image {container['image']}: {message} (exit code {terminated['exitCode']} of container {container['name']})"
    )
    return Problem(JobReason.SOURCE_MISSING, text)


def _container(name: str, image: str, paths: list[str], download: PreflightDownload | None = None) -> Json:
    script = f'for p; do [ -e "$p" ] || {{ echo "path $p {MISSING}" >/dev/termination-log; exit 1; }}; done'
    if download:
        script += f"; exec {shlex.join(download.command)}"
    return {
        "name": name,
        "image": image,
        "command": ["sh", "-c", script, "sh", *paths],
        "resources": DOWNLOAD_RESOURCES if download else HELPER_RESOURCES,
        "securityContext": RESTRICTED,
    }


def _claim_volumes(claims: Iterable[VolumeClaimSource]) -> Iterator[PodVolumes]:
    for number, claim in enumerate(dict.fromkeys(claim.claim_name for claim in claims)):
        volume: Json = {"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        where = mount(f"claim-{number}", f"{VOLUME_ROOT}/{claim}", read_only=True)
        yield PodVolumes([{"name": f"claim-{number}", **volume}], [where])
