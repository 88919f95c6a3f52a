"""A real task, its image in the cluster's registry, and a Grader in the module's namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from swerl_agent.grading import Grader
from swerl_agent.tasks import Task
from swerl_api import GradingSpec, Resources
from swerl_kube import KubeClient

from .task_image import Repository, push_image

SMALL = Resources(limits={"cpu": "400m", "memory": "256Mi"})  # also requested: five at once on two processors


def settings(**changes: object) -> GradingSpec:
    """Grading as the tests use it: small Pods, no cache."""
    return GradingSpec.model_validate(
        {"timeout_seconds": 60, "retries": 0, "resources": SMALL, "cache": False, **changes}
    )


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("calc"))


@pytest.fixture(scope="session")
def task(repository: Repository) -> Task:
    return repository.task(push_image(repository))


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_environment(kubeconfig) as opened:
        yield opened


@pytest.fixture
async def grader(client: KubeClient, namespace: str) -> AsyncIterator[Grader]:
    labels = {"swerl.dev/job": "grading-test"}
    async with Grader(client, namespace, settings(), labels) as opened:
        yield opened
    remaining = await client.list("networking.k8s.io/v1", "networkpolicies", namespace, labels="swerl.dev/job")
    assert not remaining, "a Grader removes its policy"


@pytest.fixture
def cache_folder(tmp_path: Path) -> Path:
    return tmp_path / "verdicts"
