"""A model that a job names by a Hugging Face id is on the output volume before a Ray Pod exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.job import Images
from tests import hub_server
from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace
from .evaluations import config_map

FILES = {"config.json": "{}", "model.safetensors": "weights", "pytorch_model.bin": "the same"}
PORT = 8000


@pytest.fixture
def hub_address(kube: JobNamespace) -> str:
    """Where the Pod of `start_hub` will answer; a Service, so that its name is known before."""
    spec = {"selector": {"app": "hub"}, "ports": [{"port": PORT}]}
    kube.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hub"}, "spec": spec})
    return f"http://hub:{PORT}"


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


def test_model_precedes_the_cluster_and_a_failure_is_tried_again(
    kube: JobNamespace, operator: Operator, job: Body, hub_address: str
) -> None:
    name = job["metadata"]["name"]
    job["spec"]["model"]["source"] = {"huggingFace": {"id": "acme/tiny", "revision": "v1"}}
    job["spec"]["trainer"] |= {"image": Images.load()["trainer"], "env": {"HF_ENDPOINT": hub_address}}
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
