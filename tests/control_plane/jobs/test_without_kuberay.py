"""A cluster without KubeRay, and without the chart: an API server of its own, which has only our CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.api_server import api_server
from tests.control_plane.operator_process import Operator

from .conftest import ROOT, Body, JobNamespace


@pytest.fixture(scope="module")
def cluster_without_kuberay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobNamespace]:
    """Its namespace `default`."""
    with api_server(tmp_path_factory.mktemp("bare")) as kubeconfig:
        yield JobNamespace(kubeconfig, "default")


def test_operator_waits_for_crds_and_names_what_is_missing(
    cluster_without_kuberay: JobNamespace, job: Body, tmp_path: Path
) -> None:
    with Operator(cluster_without_kuberay.kubeconfig, tmp_path / "log", namespaces="default") as operator:
        cluster_without_kuberay.until(lambda: operator.log.read_text(), lambda log: "CRDs not installed" in log)
        cluster_without_kuberay.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        operator.until_leading()
        job["metadata"]["namespace"] = "default"
        cluster_without_kuberay.apply(job)
        name = job["metadata"]["name"]
        found = cluster_without_kuberay.until_condition(name, "Validated", "KubeRayMissing")
        assert "helm upgrade --install kuberay-operator" in found["message"]
        assert "--set kuberay.install=true" in found["message"]
        assert "ClusterRole 'swe-rl-driver' for drivers does not exist" in found["message"]
        assert cluster_without_kuberay.status(name)["phase"] == "Blocked" and operator.alive
