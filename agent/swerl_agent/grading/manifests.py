"""Kubernetes objects of grading, as plain dicts."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from typing import Any

from swerl_api import GradingSpec, SandboxSpec
from swerl_api.names import EGRESS_LABEL, ROLE_GRADING, ROLE_LABEL, TASK_LABEL, label_value
from swerl_api.pod_metadata import without_mesh
from swerl_api.swesandbox import CAPABILITIES

Manifest = dict[str, Any]

CONTAINER = "grading"
PAYLOAD = "/swerl"
WITNESS = {  # files of the package -> where Python of a grading Pod imports them from
    "swerl_paths.py": "witness/swerl_paths.py",
    "swerl_record.py": "witness/swerl_record.py",
    "swerl_memory.py": "witness/swerl_memory.py",
    "swerl_witness.py": "witness/swerl_witness.py",
    "swerl_unittest.py": "witness/swerl_unittest.py",
    "sitecustomize.py": "witness/runners/sitecustomize.py",
}
GRADER_LABEL = "swerl.dev/grader"  # which Grader made it
PART_BYTES = 700_000  # of payload per ConfigMap; base64 makes a third more of it, the limit is 1 MiB
PULL_ALLOWANCE = 600  # seconds for scheduling and pulling, besides the eval script's own limit
VARIABLE_CHARS = 100_000  # of the overlay per variable of the environment; the kernel takes 128 KiB
TTL_SECONDS = 300  # a finished Job that was not deleted


def deny_all_policy(name: str, labels: Mapping[str, str], grader: str, owners: Sequence[Manifest]) -> Manifest:
    """No traffic in or out for the Pods of one Grader."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "labels": dict(labels), "ownerReferences": list(owners)},
        "spec": {"podSelector": {"matchLabels": {GRADER_LABEL: grader}}, "policyTypes": ["Ingress", "Egress"]},
    }


def payload_maps(
    name: str, files: Mapping[str, bytes], labels: Mapping[str, str], owners: Sequence[Manifest]
) -> list[Manifest]:
    """ConfigMaps that together hold `files`, each file cut into parts <file>.NNN."""
    maps: list[Manifest] = []
    room = 0
    for file, content in files.items():
        parts = [content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES)] or [b""]
        for number, part in enumerate(parts):
            if len(part) > room or not maps:
                maps.append(_payload_map(f"{name}-{len(maps)}" if maps else name, labels, owners))
                room = PART_BYTES
            maps[-1]["binaryData"][f"{file}.{number:03}"] = base64.b64encode(part).decode()
            room -= len(part)
    return maps


def _payload_map(name: str, labels: Mapping[str, str], owners: Sequence[Manifest]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(labels), "ownerReferences": list(owners)},
        "immutable": True,
        "binaryData": {},
    }


def grading_labels(base: Mapping[str, str], grader: str, instance_id: str) -> dict[str, str]:
    """Labels of everything one grading makes."""
    return {
        **base,
        ROLE_LABEL: ROLE_GRADING,
        EGRESS_LABEL: "none",
        GRADER_LABEL: grader,
        TASK_LABEL: label_value(instance_id),
    }


def grading_job(
    name: str,
    image: str,
    arguments: Sequence[str],
    maps: Sequence[str],
    *,
    settings: GradingSpec,
    sandbox: SandboxSpec,
    labels: Mapping[str, str],
    owners: Sequence[Manifest],
    overlay: Mapping[str, str] | None = None,
    await_probe: bool = False,
) -> Manifest:
    """The Job that runs `grade.sh` with `arguments` on the payload of the ConfigMaps named `maps`.

    Its Pod runs where those of `sandbox` do, and pulls its image as they do. `overlay`: text by path of files that are
    in the image while the tests run. `await_probe`: no test runs before the Pod's isolation is known.
    """
    deadline = settings.timeout_seconds + PULL_ALLOWANCE
    environment = _environment(overlay or {}, await_probe=await_probe)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": dict(labels), "ownerReferences": list(owners)},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "template": {
                "metadata": without_mesh({"labels": dict(labels)}),
                "spec": _pod(image, arguments, maps, settings, sandbox, environment),
            },
        },
    }


def _environment(overlay: Mapping[str, str], *, await_probe: bool) -> list[Manifest]:
    """Variables that only process 1 can read; those of the overlay are each short enough for the kernel."""
    packed = {path: base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode() for path, text in overlay.items()}
    lines = "".join(f"{path} {content}\n" for path, content in packed.items())
    parts = [lines[at : at + VARIABLE_CHARS] for at in range(0, len(lines), VARIABLE_CHARS)]
    found = [{"name": f"SWERL_OVERLAY_{number:03}", "value": part} for number, part in enumerate(parts)]
    return [*found, *([{"name": "SWERL_AWAIT_PROBE", "value": "1"}] if await_probe else [])]


def _pod(
    image: str,
    arguments: Sequence[str],
    maps: Sequence[str],
    settings: GradingSpec,
    sandbox: SandboxSpec,
    environment: Sequence[Manifest],
) -> Manifest:
    pod: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": dict(sandbox.node_selector),
        "tolerations": [item.model_dump(by_alias=True, exclude_none=True) for item in sandbox.tolerations],
        "imagePullSecrets": [{"name": name} for name in sandbox.pull_secrets],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "payload", "projected": {"sources": [*map(_whole, maps), _witness(maps[0])]}}],
        "containers": [
            {
                "name": CONTAINER,
                "image": image,
                "imagePullPolicy": sandbox.image_pull_policy,
                "command": ["bash", f"{PAYLOAD}/grade.sh.000", *arguments, PAYLOAD],
                "workingDir": "/",
                "terminationMessagePolicy": "FallbackToLogsOnError",  # holds the words "exec format error"
                "env": list(environment),
                "resources": _guaranteed_resources(settings),
                "volumeMounts": [{"name": "payload", "mountPath": PAYLOAD, "readOnly": True}],
                "securityContext": {
                    "runAsUser": 0,  # whatever user the image names: scripts install, and write anywhere
                    "runAsGroup": 0,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {
                        "drop": ["ALL"],
                        # SETPCAP is process 1's alone: what lacks it cannot look into a process that has it
                        "add": sorted([*CAPABILITIES, "SETPCAP"]),
                    },
                },
            }
        ],
    }
    if sandbox.runtime_class_name:
        pod["runtimeClassName"] = sandbox.runtime_class_name
    if sandbox.host_users is not None:
        pod["hostUsers"] = sandbox.host_users
    return pod


def _whole(name: str) -> Manifest:
    return {"configMap": {"name": name}}


def _witness(name: str) -> Manifest:
    """The witness as modules that Python can import, from the first map."""
    items = [{"key": f"{file}.000", "path": path} for file, path in WITNESS.items()]
    return {"configMap": {"name": name, "items": items}}


def _guaranteed_resources(settings: GradingSpec) -> Manifest:
    """Requests equal to limits, the limit where both are given: timing-sensitive tests need their CPU."""
    amounts = {**settings.resources.requests, **settings.resources.limits}
    return {"requests": dict(amounts), "limits": dict(amounts)}
