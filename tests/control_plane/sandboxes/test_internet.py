"""Egress internet on the wire of the local cluster: a public address answers, nothing of the cluster does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import layout
from tests.control_plane import pod_network
from tests.ports import free_port

from .conftest import inside

PUBLIC = "203.0.113.80"  # of documentation, which no network routes; the node answers there during a test
CONNECTS = 'timeout 5 bash -c ": <>/dev/tcp/$0/$1" && echo reached || echo refused'


@pytest.fixture
def running() -> layout.Cluster:
    found = layout.find(layout.cluster_name(), layout.swerl_home())
    assert found is not None, "the local cluster runs"
    return found


@pytest.fixture
def public_port(running: layout.Cluster) -> Iterator[int]:
    """Port of a listener at PUBLIC, as if on the Internet."""
    node, port = Path("/run/netns") / running.label, free_port()
    pod_network.inside(node, "ip", "addr", "replace", f"{PUBLIC}/32", "dev", "lo")
    try:
        with pod_network.listener(node, port):
            yield port
    finally:
        pod_network.inside(node, "ip", "addr", "del", f"{PUBLIC}/32", "dev", "lo")


async def test_sandbox_with_the_internet_reaches_nothing_of_the_cluster(
    user: Any, kubeconfig: str, running: layout.Cluster, public_port: int
) -> None:
    await user.declare("cluster", egress="allow", command=["python3", "-m", "http.server", "8080"])
    await user.declare("public", egress="internet")
    for name in ("cluster", "public"):
        await user.phase(name, "Ready")
    pods = await user.pods("cluster")
    targets = {
        "internet": (PUBLIC, public_port),
        "service": (running.kubernetes_ip, 443),
        "name server": (running.dns_ip, 53),
        "node": (running.node_ip, 6443),
        "machine": (running.host_ip, running.registry_port),
        "pod": (pods["swesb-cluster-0"]["status"]["podIP"], 8080),
        "metadata": ("169.254.169.254", 80),
    }

    async def reached(pod: str) -> set[str]:
        answers = await asyncio.gather(
            *(
                inside(kubeconfig, user.namespace, pod, "sh", "-c", CONNECTS, host, str(port))
                for host, port in targets.values()
            )
        )
        return {name for name, answer in zip(targets, answers, strict=True) if "reached" in answer}

    assert {"internet", "service", "name server", "node", "pod"} <= await reached("swesb-cluster-0")
    assert await reached("swesb-public-0") == {"internet"}
    for name in ("cluster", "public"):
        await user.delete(name)
