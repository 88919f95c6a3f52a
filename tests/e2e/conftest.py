"""The product as a user has it: chart installed on the real cluster, images built, jobs applied with kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.cluster import DemoCluster
from demo.job import Images, dependency_manifests
from demo.setup import install_operator
from tests.conftest import one_at_a_time
from tests.e2e.product_namespace import ProductNamespace


@pytest.fixture(scope="session")
def product(kubeconfig: str) -> tuple[DemoCluster, Images]:
    """The chart of this checkout, installed or upgraded."""
    cluster = DemoCluster(Path(kubeconfig), local=True)
    images = Images.load()
    with one_at_a_time():
        install_operator(cluster, images)
    return cluster, images


@pytest.fixture(scope="module")
def product_namespace(product: tuple[DemoCluster, Images], namespace: str) -> Iterator[ProductNamespace]:
    cluster, images = product
    product_namespace = ProductNamespace(cluster, images, namespace)
    cluster.apply(*dependency_manifests(namespace))
    yield product_namespace
    cluster.kubectl("delete", "swerljobs,sweevals", "--all", "-n", namespace, "--ignore-not-found")
