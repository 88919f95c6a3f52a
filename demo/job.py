"""The demo's objects: the SweRLJob of swerljob.yaml with this cluster's image references, prompts, volume."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from demo.cluster import ROOT, Cluster, swerl_home

NAMESPACE = "swerl-demo"
SYSTEM_NAMESPACE = "swerl-system"
JOB = "demo"
CLAIM = "demo-output"
PROMPTS = "demo-prompts"


@dataclass(frozen=True)
class Images:
    """References inside the cluster, by image name, as the image build wrote them."""

    references: dict[str, str]

    @classmethod
    def built(cls) -> Images:
        listing = swerl_home() / "images" / "images.json"
        return cls(json.loads(listing.read_text()))

    def __getitem__(self, name: str) -> str:
        return self.references[f"swe-rl/{name}"]


def job_manifest(
    images: Images, *, name: str = JOB, namespace: str = NAMESPACE, seed: int | None = None
) -> dict[str, Any]:
    """swerljob.yaml with the references that were built, and `seed` when given."""
    job: dict[str, Any] = yaml.safe_load((ROOT / "swerljob.yaml").read_text())
    job["metadata"] |= {"name": name, "namespace": namespace}
    spec = job["spec"]
    spec["trainer"]["image"] = images["trainer"]
    for part in ("model", "tasks", "evaluation"):
        if part in spec:
            spec[part]["source"]["image"]["reference"] = images["demo-data"]
    if seed is not None:
        spec["algorithm"]["seed"] = seed
        spec["tasks"]["seed"] = seed
    return job


def prompts_manifest(namespace: str = NAMESPACE) -> dict[str, Any]:
    text = (ROOT / "tasks" / "demo-prompts.yaml").read_text()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PROMPTS, "namespace": namespace},
        "data": {"prompts.yaml": text},
    }


def namespace_manifest(namespace: str = NAMESPACE) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}


def volume_manifests(cluster: Cluster, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """The claim for checkpoints and artifacts; on the local cluster, which has no provisioner, also its volume."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "4Gi"}}}
    if storage_class := os.environ.get("SWERL_STORAGE_CLASS"):
        spec["storageClassName"] = storage_class
    manifests = []
    if cluster.local:
        volume = f"{namespace}-{CLAIM}"
        spec |= {"storageClassName": "", "volumeName": volume}
        path = output_folder(namespace)
        manifests.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": {
                    "capacity": {"storage": "4Gi"},
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "",
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": namespace, "name": CLAIM},
                    "hostPath": {"path": str(path), "type": "DirectoryOrCreate"},
                },
            }
        )
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
    return [*manifests, claim | {"metadata": {"name": CLAIM, "namespace": namespace}}]


def output_folder(namespace: str = NAMESPACE) -> Path:
    """Where the local cluster keeps the job's output on this machine."""
    return swerl_home() / "demo" / "output" / namespace
