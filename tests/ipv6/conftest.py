"""A cluster of its own with IPv6, which `make test-ipv6` starts: dual stack, then without IPv4.

Its API server is used over IPv6 alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from swerl_api.addresses import url_host
from swerl_kube import KubeClient

from cluster import layout
from cluster.families import IPV6
from cluster.layout import Cluster
from tests.control_plane.cluster.conftest import other_probes, probe_image, probes
from tests.control_plane.cluster.probe_namespace import Json
from tests.control_plane.conftest import crds, operator, operator_options
from tests.control_plane.sandboxes.conftest import inside, user

__all__ = ["crds", "operator", "operator_options", "other_probes", "probe_image", "probes", "user"]

CONNECT = 'timeout 5 bash -c ": <>/dev/tcp/$0/$1" && echo reached || echo refused'
Targets = Mapping[str, tuple[str, int]]  # name -> host, TCP port


@pytest.fixture(scope="session")
def running() -> Cluster:
    """The cluster $SWERL_CLUSTER_NAME; fails where it has no IPv6, so no other cluster is used by mistake."""
    found = layout.find(layout.cluster_name(), layout.swerl_home())
    if found is None or IPV6 not in found.families:
        pytest.fail(f"cluster {layout.cluster_name()!r} has no IPv6; run `make test-ipv6`")
    return found


@pytest.fixture(scope="session")
def kubeconfig(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The cluster's kubeconfig with the node's IPv6 address as the server."""
    path, server = tmp_path_factory.mktemp("kubeconfig") / "config", f"https://{url_host(running.node_ips[-1])}:6443"
    text = running.kubeconfig.read_text()
    assert running.server in text  # without IPv4 it is this address already
    path.write_text(text.replace(running.server, server))
    return str(path)


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_environment(kubeconfig) as client:
        yield client


@pytest.fixture
def node(running: Cluster) -> Path:
    """The node's network namespace."""
    return Path("/run/netns") / running.label


def addresses(pod: Json) -> list[str]:
    """The Pod's addresses: that of IPv4 if it has one, and that of IPv6."""
    return [each["ip"] for each in pod["status"]["podIPs"]]


def ipv6_address(pod: Json) -> str:
    """The Pod's address of IPv6."""
    [found] = [address for address in addresses(pod) if ":" in address]
    return found


async def reached(kubeconfig: str, namespace: str, pod: str, targets: Targets) -> set[str]:
    """Names of the targets that a sandbox opens a connection to."""
    answers = await asyncio.gather(
        *(inside(kubeconfig, namespace, pod, "sh", "-c", CONNECT, host, str(port)) for host, port in targets.values())
    )
    return {name for name, answer in zip(targets, answers, strict=True) if "reached" in answer}
