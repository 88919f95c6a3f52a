"""Connections to the API server stay open and carry no data: operator and client detect it and continue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from swerl_agent.sandbox import Sandbox
from swerl_kube import KubeClient

from tests.chaos.conftest import RESOURCES
from tests.chaos.stalling_proxy import StallingProxy, proxied_kubeconfig, server_of
from tests.control_plane.exec.conftest import IMAGE
from tests.control_plane.operator_process import Operator

DETECTION_SECONDS = 100.0  # seconds; a watch is silent for a minute between two bookmarks


@pytest.fixture
def proxy(kubeconfig: str) -> Iterator[StallingProxy]:
    with StallingProxy(server_of(kubeconfig)) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy: StallingProxy, kubeconfig: str, tmp_path: Path) -> str:
    """Kubeconfig of the API server beyond the hole."""
    return proxied_kubeconfig(proxy, kubeconfig, tmp_path / "kubeconfig")


@pytest.fixture
def operator(proxied: str, namespace: str, crds: None, tmp_path: Path) -> Iterator[Operator]:
    with Operator(proxied, tmp_path / "log", namespaces=namespace, lease_namespace=namespace) as operator:
        operator.until_leading()
        yield operator


async def test_operator_and_client_go_on(
    proxy: StallingProxy, proxied: str, operator: Operator, namespace: str
) -> None:
    async with KubeClient.from_environment(proxied) as client:
        options = {"client": client, "kubeconfig": proxied, "namespace": namespace, "resources": RESOURCES}
        async with Sandbox.claim(IMAGE, 1, **options) as [first]:
            running = asyncio.create_task(first.run("echo once >>/tmp/runs; sleep 10; echo done", timeout=25))
            await asyncio.sleep(2)
            assert proxy.stall() >= 4, "the operator's watches, the client's, the session"
            async with asyncio.timeout(DETECTION_SECONDS):
                async with Sandbox.claim(IMAGE, 1, **options) as [second]:
                    assert (await second.run("echo new", timeout=60)).stdout == b"new\n"
                result = await running
            assert (result.stdout, result.timed_out) == (b"done\n", False)
            assert await first.read("/tmp/runs") == b"once\n"
    assert operator.alive, operator.log.read_text()[-4000:]
