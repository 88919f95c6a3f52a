"""A model that a job names by a Hugging Face id is on the output volume before a Ray Pod exists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.job import Images
from tests import hub_server
from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace
from .evaluations import config_map

CONFIG = {
    "model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 512,
    "num_key_value_heads": 2, "intermediate_size": 96,
}  # fmt: skip
FILES = {"config.json": json.dumps(CONFIG), "model.safetensors": "weights", "pytorch_model.bin": "the same"}
PORT = 8000


@pytest.fixture
def hub_address(kube: JobNamespace) -> Iterator[str]:
    """Where the Pod of `start_hub` will answer; a Service, so that its name is known before."""
    spec = {"selector": {"app": "hub"}, "ports": [{"port": PORT}]}
    kube.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hub"}, "spec": spec})
    yield f"http://hub:{PORT}"
    kube.kubectl("delete", "pod", "hub", "--ignore-not-found", "--now")


def start_hub(kube: JobNamespace) -> None:
    config_map(kube, "hub-program", {"hub.py": Path(hub_server.__file__).read_text()})
    config_map(kube, "hub-model", FILES)
    container = {
        "name": "hub", "image": Images.load()["trainer"], "command": ["python", "/program/hub.py", "/hub", str(PORT)],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "program", "mountPath": "/program"}, {"name": "model", "mountPath": "/hub/acme/tiny"}
        ],
    }  # fmt: skip
    sources = {"program": "hub-program", "model": "hub-model"}
    volumes = [{"name": name, "configMap": {"name": source}} for name, source in sources.items()]
    metadata = {"name": "hub", "labels": {"app": "hub"}}
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def downloading(job: Body, hub_address: str, revision: str) -> str:
    """Let `job` take its model from the Hub; returns its name."""
    job["spec"]["model"]["source"] = {"huggingFace": {"id": "acme/tiny", "revision": revision}}
    job["spec"]["trainer"] |= {"image": Images.load()["trainer"], "env": {"HF_ENDPOINT": hub_address}}
    return str(job["metadata"]["name"])


def test_model_precedes_the_cluster_and_a_failure_is_tried_again(
    kube: JobNamespace, operator: Operator, job: Body, hub_address: str
) -> None:
    name = downloading(job, hub_address, "v1")
    kube.apply(job)
    found = kube.until_condition(name, "ImagesReady", "DownloadFailed", 300)
    assert "model.source: acme/tiny@v1 cannot be downloaded" in found["message"]
    status = kube.status(name)
    assert (status["phase"], status["reason"]) == ("Blocked", "DownloadFailed")
    assert "cannot be downloaded" in kube.kubectl("logs", f"{name}-1-preflight")
    assert kube.names("rayclusters") == []
    start_hub(kube)
    kube.until_condition(name, "ImagesReady", "ImagesPulled", 300)
    folder = Path("/tmp") / kube.namespace / "models" / "acme--tiny@v1"
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "COMPLETE", ".cache"}


def test_model_that_does_not_fit_is_refused_before_ray_pods_exist(
    kube: JobNamespace, operator: Operator, job: Body, hub_address: str
) -> None:
    start_hub(kube)
    name = downloading(job, hub_address, "v2")
    room = {"requests": {"cpu": "10m", "memory": "2Gi"}}
    job["spec"]["trainer"] |= {"replicas": 3, "tensorParallel": 3, "resources": room}
    kube.apply(job)
    found = kube.until_condition(name, "Validated", "LayoutRefused", 300)
    assert "attention heads 4 cannot be divided over tensorParallel 3: choose a divisor" in found["message"]
    assert "a layout that fits: replicas 3, tensorParallel 1" in found["message"]
    assert kube.condition(name, "ImagesReady")["reason"] == "ImagesPulled"
    status = kube.status(name)
    assert (status["phase"], status["attempt"], status.get("failures", 0)) == ("Blocked", 1, 0)
    cluster = f"raycluster.ray.io/{name}-1"
    assert cluster not in kube.names("rayclusters")
    job["spec"]["trainer"]["tensorParallel"] = 1
    kube.apply(job)
    kube.until(lambda: kube.names("rayclusters"), lambda names: cluster in names)
    assert kube.status(name)["attempt"] == 1
