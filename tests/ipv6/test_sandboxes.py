"""Sandboxes with an address of IPv6: commands, and the isolation of each egress."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.sandbox import NotIsolated, Sandbox, Session
from swerl_agent.sandbox.isolation import check_isolation
from swerl_kube import KubeClient

from cluster.layout import Cluster
from tests.control_plane import pod_network
from tests.control_plane.exec.conftest import IMAGE, SMALL, connect
from tests.control_plane.operator_process import Operator
from tests.control_plane.sandboxes.conftest import User, condition
from tests.control_plane.sandboxes.test_isolation import OPEN
from tests.ipv6.conftest import Targets, addresses, ipv6_address, reached
from tests.ports import free_port

PUBLIC = "3fff::80"  # of documentation (RFC 9637), which no network routes; the node answers there during a test
SERVE = ["python3", "-m", "http.server", "8080", "--bind", "::"]
INTERFACES = "cut -d ' ' -f 1 /proc/net/if_inet6"


@pytest.fixture
def targets(running: Cluster, node: Path) -> Iterator[dict[str, tuple[str, int]]]:
    """What a sandbox could reach over IPv6, but for Pods."""
    machine, public = free_port(), free_port()
    pod_network.inside(node, "ip", "addr", "replace", f"{PUBLIC}/128", "dev", "lo", "nodad")
    try:
        with pod_network.listener(node, public), pod_network.listener(Path("/proc/self/ns/net"), machine):
            yield {
                "api server": (running.node_ips[-1], 6443),
                "machine": (running.host_ips[-1], machine),
                "internet": (PUBLIC, public),
            }
    finally:
        pod_network.inside(node, "ip", "addr", "del", f"{PUBLIC}/128", "dev", "lo")


async def add_pod(user: User, targets: Targets) -> dict[str, tuple[str, int]]:
    """The targets, and an open sandbox `open` that serves."""
    await user.declare("open", egress="allow", command=SERVE)
    await user.phase("open", "Ready")
    pods = await user.pods("open")
    return {**targets, "pod": (ipv6_address(pods["swesb-open-0"]), 8080)}


async def test_sandbox_has_the_clusters_families_and_runs_commands(
    kubeconfig: str, namespace: str, operator: Operator, running: Cluster, client: KubeClient
) -> None:
    claim = Sandbox.claim(
        IMAGE, 2, kubeconfig=kubeconfig, namespace=namespace, name="both", resources=SMALL, timeout=180
    )
    async with claim as group:
        for ordinal, sandbox in enumerate(group):
            pod = await client.get("v1", "pods", namespace, f"swesb-both-{ordinal}")
            assert all(
                ipaddress.ip_address(ip) in ipaddress.ip_network(cidr)
                for ip, cidr in zip(addresses(pod), running.pod_cidrs, strict=True)
            )
            assert (await sandbox.run("echo $((6 * 7))")).output == "42\n"
            assert (
                ipaddress.ip_address(ipv6_address(pod)).exploded.replace(":", "")
                in (await sandbox.run(INTERFACES)).output
            )


async def test_each_egress_reaches_over_ipv6_what_it_allows(user: User, kubeconfig: str, targets: Targets) -> None:
    everything = await add_pod(user, targets)
    for egress in ("none", "internet"):
        await user.declare(egress, egress=egress)
        await user.phase(egress, "Ready")
    assert await reached(kubeconfig, user.namespace, "swesb-open-0", everything) == set(everything)
    assert await reached(kubeconfig, user.namespace, "swesb-none-0", everything) == set()
    assert await reached(kubeconfig, user.namespace, "swesb-internet-0", everything) == {"internet"}


async def test_isolation_probe_names_what_it_reaches_over_ipv6(
    user: User, client: KubeClient, targets: Targets
) -> None:
    everything = [*(await add_pod(user, targets)).values()]
    await user.declare("closed")
    await user.phase("closed", "Ready")
    pods = {name: (await user.pods(name))[f"swesb-{name}-0"] for name in ("open", "closed")}
    async with Session(connect(client, pods["closed"])) as session:
        await check_isolation(session, everything, settle=0)
    async with Session(connect(client, pods["open"])) as session:
        with pytest.raises(NotIsolated) as raised:
            await check_isolation(session, everything, settle=0)
    assert all(f"tcp {host} {port}" in str(raised.value) for host, port in everything)


@pytest.fixture
async def opened(user: User) -> AsyncIterator[None]:
    """A policy that opens the namespace, as another may have made it."""
    name = OPEN["metadata"]["name"]
    await user.api.create("networkpolicies", OPEN | {"metadata": {"name": name, "namespace": user.namespace}})
    yield
    await user.api.delete("networking.k8s.io/v1", "networkpolicies", user.namespace, name)


@pytest.mark.usefixtures("opened")
async def test_operator_finds_a_group_that_reaches_it_over_ipv6(user: User, running: Cluster) -> None:
    """Its own address is one of IPv6, because it uses the API server over IPv6."""

    def refused(status: dict[str, Any]) -> bool:
        return bool(status) and condition(status, "Ready")[1] == "NotIsolated"

    await user.declare("opened")
    status = await user.until(lambda: user.status("opened"), refused, 60)
    assert f"tcp {running.host_ips[-1]} " in condition(status, "Ready")[2], condition(status, "Ready")
