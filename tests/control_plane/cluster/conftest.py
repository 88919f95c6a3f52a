"""The running cluster, and a second one that is created and removed by the tests that break things."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import layout, oci
from cluster.layout import Cluster
from tests.control_plane.cluster.probe_namespace import ProbeNamespace, cluster_command

_REPOSITORY = "swe-rl/test-probe"


@pytest.fixture(scope="session")
def running() -> Cluster:
    """The cluster $SWERL_CLUSTER_NAME of $SWERL_HOME; `up` starts it where it does not run."""
    found = layout.find(layout.cluster_name(), layout.swerl_home())
    if found is None:
        cluster_command("up")
        found = layout.find(layout.cluster_name(), layout.swerl_home())
    assert found is not None
    return found


@pytest.fixture(scope="session")
def probe_image(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Reference of an image that holds the probe program and nothing else."""
    source = Path(__file__).parent / "probe"
    tag = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.iterdir()))).hexdigest()[:16]
    registry = oci.Registry(running.registry_port)
    if not registry.has(_REPOSITORY, tag):
        program = tmp_path_factory.mktemp("probe") / "probe"
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
        subprocess.run(
            ["go", "build", "-ldflags=-s -w", "-o", str(program), "."], cwd=source, env=environment, check=True
        )
        registry.push_programs(_REPOSITORY, tag, {"probe": program}, ["/probe"])
    return f"{layout.REGISTRY_NAME}/{_REPOSITORY}:{tag}"


@pytest.fixture(scope="module")
def probes(running: Cluster, probe_image: str, namespace: str) -> ProbeNamespace:
    """A fresh namespace of the running cluster."""
    return ProbeNamespace(str(layout.swerl_home() / "bin" / "kubectl"), str(running.kubeconfig), namespace, probe_image)


@pytest.fixture(scope="module")
def other_probes(probes: ProbeNamespace) -> Iterator[ProbeNamespace]:
    """A second namespace beside `probes`, labelled team=b."""
    other_namespace = dataclasses.replace(probes, namespace=f"{probes.namespace}-b")
    labelled = {"name": other_namespace.namespace, "labels": {"team": "b"}}
    done = other_namespace.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
    )
    assert done.returncode == 0, done.stderr
    yield other_namespace
    other_namespace.kubectl("delete", "namespace", other_namespace.namespace, "--wait=false")


@pytest.fixture(scope="module")
def second(running: Cluster, probe_image: str) -> Iterator[ProbeNamespace]:
    """Another, bare cluster on the same machine; removed afterwards if a test has not done it."""
    name = f"test-{os.getpid()}"
    cluster_command("--name", name, "up", "--bare")
    found = layout.find(name, layout.swerl_home())
    assert found is not None
    yield ProbeNamespace(str(layout.swerl_home() / "bin" / "kubectl"), str(found.kubeconfig), "default", probe_image)
    cluster_command("--name", name, "down", "--purge")
