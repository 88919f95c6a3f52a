"""A job on a cluster without IPv4: Ray, ranks, engines, router, sandboxes, gradings and the operator's Pod use IPv6."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.families import IPV6_ONLY
from cluster.layout import Cluster
from demo.cluster import DemoCluster
from demo.job import SYSTEM_NAMESPACE, Images
from demo.setup import RELEASE, install_operator
from tests.e2e.conftest import product_namespace
from tests.e2e.product_namespace import ProductNamespace

__all__ = ["product_namespace"]


@pytest.fixture(scope="module")
def product(running: Cluster, kubeconfig: str) -> Iterator[tuple[DemoCluster, Images]]:
    """The chart of this checkout while this module runs; others have an operator of their own."""
    if running.families != IPV6_ONLY:
        pytest.skip("Ray uses IPv4 where Pods have it first")
    cluster, images = DemoCluster(Path(kubeconfig), local=True), Images.load()
    install_operator(cluster, images)
    yield cluster, images
    cluster.helm("uninstall", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--wait")


def test_job_trains_without_ipv4(product_namespace: ProductNamespace) -> None:
    name = product_namespace.apply(product_namespace.manifest("six", {"steps": 1, "promptsPerStep": 2, "groupSize": 4}))
    assert product_namespace.finish(name, 900)["step"] == 1
    [row] = product_namespace.rows()
    assert row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4
