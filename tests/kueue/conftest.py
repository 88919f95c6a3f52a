"""The real Kueue beside the installed chart, and one namespace with a queue of a small quota."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from swerl_kube import KubeClient
from swerl_operator.kube import operator_client
from swerl_operator.metrics import Metrics

from tests.conftest import kubectl
from tests.e2e.conftest import product
from tests.kueue.installation import LABEL, installed
from tests.kueue.queue import Queue, declare

__all__ = ["product"]


@pytest.fixture(scope="session")
def kueue(kubeconfig: str) -> Iterator[None]:
    """Kueue, which is gone from the cluster again afterwards."""
    with installed(kubeconfig):
        yield


@pytest.fixture(scope="module")
def cluster_queue(kubeconfig: str, product: object, kueue: None, namespace: str) -> str:
    """The namespace's ClusterQueue."""
    kubectl(kubeconfig, "label", "namespace", namespace, f"{LABEL}=true")
    return declare(kubeconfig, namespace)


@pytest.fixture
async def queue(
    kubeconfig: str, namespace: str, cluster_queue: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Queue]:
    """The namespace's queue; no test finds the groups of another."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    async with operator_client(Metrics()) as api:
        yield Queue(api, namespace, cluster_queue)
    kubectl(kubeconfig, "delete", "swesandboxes", "--all", "-n", namespace, "--timeout=60s")
    kubectl(kubeconfig, "wait", "--for=delete", "pods", "--all", "-n", namespace, "--timeout=90s")


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_environment(kubeconfig) as client:
        yield client
