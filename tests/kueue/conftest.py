"""The real Kueue beside the installed chart, and one namespace with a queue of a small quota."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from swerl_agent.kube import KubeClient
from swerl_operator.kube import Kube
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
def cluster_queue(kubeconfig: str, product: object, kueue: None, namespace: str) -> Iterator[str]:
    """The namespace's ClusterQueue; what the tests left in the namespace goes while Kueue still runs."""
    kubectl(kubeconfig, "label", "namespace", namespace, f"{LABEL}=true")
    try:
        yield declare(kubeconfig, namespace)
    finally:
        kubectl(kubeconfig, "delete", "swesandboxes", "--all", "-n", namespace, "--timeout=60s", check=False)
        kubectl(kubeconfig, "wait", "--for=delete", "pods", "--all", "-n", namespace, "--timeout=90s", check=False)


@pytest.fixture
async def queue(
    kubeconfig: str, namespace: str, cluster_queue: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Queue]:
    """The namespace's queue; empty before and after a test that passes."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    async with Kube(Metrics()) as api:
        yield Queue(api, namespace, cluster_queue)


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_environment(kubeconfig) as client:
        yield client
