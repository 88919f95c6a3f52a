"""The demo's objects: those of swerljob.yaml, with this cluster's image references."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster.layout import cluster_name, image_listing, state_folder, swerl_home
from demo.cluster import ROOT

NAMESPACE = "swerl-demo"
SYSTEM_NAMESPACE = "swerl-system"
JOB = "demo"
VOLUME_CLAIM = "demo-output"


@dataclass(frozen=True)
class Images:
    """References inside the cluster, by image name, as the image build recorded them."""

    references: dict[str, str]

    @classmethod
    def load(cls) -> Images:
        return cls(json.loads(image_listing(swerl_home()).read_text()))

    def __getitem__(self, name: str) -> str:
        return self.references[f"swe-rl/{name}"]


def documents() -> dict[str, dict[str, Any]]:
    """The objects of swerljob.yaml, by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all((ROOT / "swerljob.yaml").read_text())}


def job_size() -> tuple[int, int]:
    """Training steps, and episodes per held-out task: $STEPS and $SAMPLES, else those of swerljob.yaml."""
    spec = documents()["SweRLJob"]["spec"]
    steps, samples = os.environ.get("STEPS"), os.environ.get("SAMPLES")
    return int(steps or spec["algorithm"]["steps"]), int(samples or spec["evaluation"]["samples"])


def job_manifest(
    images: Images, *, name: str = JOB, namespace: str = NAMESPACE, seed: int | None = None
) -> dict[str, Any]:
    """The job of swerljob.yaml with the built image references, `seed` if given, and the size of `job_size`."""
    job = documents()["SweRLJob"]
    job["metadata"] |= {"name": name, "namespace": namespace}
    spec = job["spec"]
    spec["trainer"]["image"] = images["trainer"]
    for section in ("model", "tasks", "evaluation"):
        spec[section]["source"]["image"]["reference"] = images["demo-data"]
    if seed is not None:
        spec["algorithm"]["seed"] = seed
        spec["tasks"]["seed"] = seed
    spec["algorithm"]["steps"], spec["evaluation"]["samples"] = job_size()
    return job


def dependency_manifests(namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """The other objects that the job needs: its prompts and its volume."""
    manifests = [document for kind, document in documents().items() if kind != "SweRLJob"]
    for document in manifests:
        document["metadata"]["namespace"] = namespace
    if storage_class := os.environ.get("SWERL_STORAGE_CLASS"):
        next(d for d in manifests if d["kind"] == "PersistentVolumeClaim")["spec"]["storageClassName"] = storage_class
    return manifests


def namespace_manifest(namespace: str = NAMESPACE) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}


def volume_folder(namespace: str = NAMESPACE) -> Path:
    """The folder of the job's volume on this machine, in the local cluster."""
    return state_folder(swerl_home(), cluster_name()) / "volumes" / namespace / VOLUME_CLAIM
