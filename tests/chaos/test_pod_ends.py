"""A Pod ends while a command runs in it: its session raises the typed error at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
from swerl_agent.sandbox import (
    Claim,
    ContainerExited,
    Evicted,
    OOMKilled,
    PodGone,
    SandboxLost,
    Session,
    StorageExceeded,
)
from swerl_kube import KubeClient, resource_path

from tests.control_plane.exec.conftest import connect

if TYPE_CHECKING:
    from tests.control_plane.exec.conftest import Json, MakePod

REPORTED = 5.0  # seconds from the end of the Pod to the error
SMALL_RESOURCES = {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi", "cpu": "1"}}
EVICTED = 90.0  # seconds the kubelet may take to measure a disk


class RunningCommand:
    """A command that would run for minutes, in a sandbox of a claimed group."""

    def __init__(self, client: KubeClient, session: Session, namespace: str, pod: str) -> None:
        self.client, self.session, self.namespace, self.pod = client, session, namespace, pod
        self.command = asyncio.create_task(session.run("sleep 300", timeout=400))

    async def error(self) -> SandboxLost:
        """What the command raised, within the time allowed."""
        with pytest.raises(SandboxLost) as caught:
            await asyncio.wait_for(self.command, REPORTED)
        return caught.value


@pytest.fixture
async def running(claim: Callable[..., Claim], client: KubeClient, namespace: str) -> AsyncIterator[RunningCommand]:
    async with claim(1) as [sandbox]:
        running = RunningCommand(client, sandbox.session, namespace, sandbox.name)
        await asyncio.sleep(1)
        yield running
        running.command.cancel()


async def test_deleted(running: RunningCommand) -> None:
    await running.client.delete("v1", "pods", running.namespace, running.pod)
    assert type(await running.error()) is PodGone


async def test_deleted_by_force(running: RunningCommand) -> None:
    await running.client.delete("v1", "pods", running.namespace, running.pod, grace_seconds=0)
    assert type(await running.error()) is PodGone


async def test_process_one_ended_by_a_command(claim: Callable[..., Claim]) -> None:
    async with claim(1) as [sandbox]:
        with pytest.raises(ContainerExited):
            await asyncio.wait_for(sandbox.session.run("kill 1; sleep 120", timeout=150), REPORTED)


async def test_evicted_by_a_user_or_a_drain(running: RunningCommand) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": running.pod}}
    await running.client.request(
        "POST", resource_path("v1", "pods", running.namespace, running.pod, "eviction"), body=eviction
    )
    assert type(await running.error()) is Evicted


async def test_out_of_memory(client: KubeClient, make_pod: MakePod) -> None:
    process_one = "until [ -e /tmp/go ]; do sleep 0.2; done; exec tail /dev/zero"
    pod = await make_pod(command=["sh", "-c", process_one], resources=SMALL_RESOURCES)
    async with Session(connect(client, pod)) as session:
        await session.open()
        with pytest.raises(OOMKilled):
            await asyncio.wait_for(session.run("touch /tmp/go; sleep 120", timeout=150), REPORTED)


async def test_command_out_of_memory_does_not_hang(client: KubeClient, make_pod: MakePod) -> None:
    """The kernel or the kubelet chooses the victim: the greedy process, or the whole container."""
    pod = await make_pod(resources=SMALL_RESOURCES)
    async with Session(connect(client, pod)) as session:
        try:
            result = await asyncio.wait_for(session.run("tail /dev/zero", timeout=60), 30)
        except OOMKilled:
            return
        assert result.exit_code == 137
        assert (await session.run("echo on", timeout=30)).stdout == b"on\n"


async def test_evicted_by_the_kubelet_for_its_disk(client: KubeClient, make_pod: MakePod, namespace: str) -> None:
    limits = {"memory": "128Mi", "cpu": "1", "ephemeral-storage": "16Mi"}
    pod = await make_pod(resources={"requests": {"cpu": "10m"}, "limits": limits})
    async with Session(connect(client, pod)) as session:
        evicted = asyncio.create_task(
            status_time(client, namespace, pod, lambda status: status.get("reason") == "Evicted")
        )
        with pytest.raises(StorageExceeded):
            await session.run("head -c 67108864 /dev/zero >/tmp/much; sleep 300", timeout=EVICTED)
        raised = time.monotonic()
        assert raised - await asyncio.wait_for(evicted, REPORTED) <= REPORTED


async def status_time(client: KubeClient, namespace: str, pod: Json, true: Callable[[Any], bool]) -> float:
    """Time at which the Pod's status was seen to be so."""
    name = f"metadata.name={pod['metadata']['name']}"
    async for event in client.watch("v1", "pods", namespace, fields=name):
        if true(event.object.get("status") or {}):
            break
    return time.monotonic()
