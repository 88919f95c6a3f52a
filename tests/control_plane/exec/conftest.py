"""Plain Pods on the real cluster, each like a sandbox: nothing runs in it but `sleep`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from swerl_agent.sandbox import PodConnector, Session
from swerl_agent.sandbox.pod import ready
from swerl_kube import KubeClient

Json = dict[str, Any]
T = TypeVar("T")
MakePod = Callable[..., Awaitable[Json]]
IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
SMALL = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_environment(kubeconfig) as client:
        yield client


def manifest(name: str, labels: dict[str, str] | None = None, volumes: Sequence[Json] = (), **container: Any) -> Json:
    body = {"name": "sandbox", "image": IMAGE, "command": ["sleep", "3600"], **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"swerl.dev/role": "sandbox", **(labels or {})}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [body],
            "volumes": list(volumes),
        },
    }


async def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """What `asked` returns, which must be there already: it waits for no answer."""
    task = asyncio.create_task(coroutine)
    for _ in range(20):
        await asyncio.sleep(0)
    assert task.done(), "what was prepared ahead is not there"
    return task.result()


async def until(done: Callable[[], Awaitable[T | None]], description: str, seconds: float = 180) -> T:
    """What `done` returns once that is true; fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        if value := await done():
            return value
        assert time.monotonic() < end, f"{description}: not after {seconds:.0f} s"
        await asyncio.sleep(0.1)


async def when_ready(client: KubeClient, namespace: str, name: str) -> Json:
    """The Pod once it is ready."""

    async def ready_pod() -> Json | None:
        pod = await client.get("v1", "pods", namespace, name)
        return pod if ready(pod) else None

    return await until(ready_pod, f"{name} is ready")


@pytest.fixture
async def make_pod(client: KubeClient, namespace: str) -> AsyncIterator[MakePod]:
    """Makes ready Pods that are deleted with the test."""
    names: list[str] = []

    async def make(name: str = "", **options: Any) -> Json:
        name = name or f"swesb-exec-{os.urandom(3).hex()}"
        await client.create("pods", manifest(name, **options), namespace=namespace)
        names.append(name)
        return await when_ready(client, namespace, name)

    yield make
    for name in names:
        try:
            await client.delete("v1", "pods", namespace, name, grace_seconds=0)
        except Exception as error:
            print(f"{name}: {error}")


@pytest.fixture
async def pod(make_pod: MakePod) -> Json:
    return await make_pod()


@pytest.fixture
async def session(client: KubeClient, namespace: str, pod: Json) -> AsyncIterator[Session]:
    async with Session(connect(client, pod)) as session:
        yield session


def connect(client: KubeClient, pod: Json) -> PodConnector:
    """The connector of a Pod object."""
    metadata = pod["metadata"]
    return PodConnector(client, metadata["namespace"], metadata["name"], uid=metadata["uid"])
