"""The isolation probe on IPv6 link-local: it reaches nothing from a closed Pod, although it can open connections.

A neighbour is put on a link with the Pod, as the node is, and listens where the API server would.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import NotIsolated, Session, check_isolation
from swerl_agent.sandbox.isolation import api_addresses
from swerl_kube import KubeClient

from tests.control_plane import pod_network
from tests.control_plane.exec.conftest import connect

if TYPE_CHECKING:
    from .conftest import Json, MakePod

PORT = 6443
DEVICE = "ll0"
POD, NEIGHBOUR = "192.0.2.2", "192.0.2.1"
CLOSED = "add table inet closed; add chain inet closed in { type filter hook input priority 0; }; "
DROP = "add rule inet closed in meta nfproto ipv6 counter drop"


@dataclass(frozen=True)
class NeighbourPod:
    """Who answers at `address`, over IPv6, until it is closed."""

    namespace: Path
    address: str

    def close(self) -> None:
        """As a policy engine does that covers IPv6 too."""
        pod_network.inside(self.namespace, "nft", CLOSED + DROP)


@pytest.fixture
async def closed_pod(client: KubeClient, namespace: str, make_pod: MakePod) -> AsyncIterator[Json]:
    """A Pod behind a policy that lets nothing through."""
    spec = {"podSelector": {"matchLabels": {"test": "closed"}}, "policyTypes": ["Ingress", "Egress"]}
    body = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed"}, "spec": spec}
    await client.create("networkpolicies", body, namespace=namespace)
    yield await make_pod(labels={"test": "closed"})
    await client.delete("networking.k8s.io/v1", "networkpolicies", namespace, "closed")


@pytest.fixture
def neighbour(closed_pod: Json) -> Iterator[NeighbourPod]:
    """A neighbour that the Pod contacted over IPv4, so that its ARP table has the hardware address, as for its node."""
    pod = pod_network.pod_namespace(closed_pod["metadata"]["uid"])
    with pod_network.machine() as machine, pod_network.link(pod, machine, DEVICE) as address:
        for namespace, source in ((pod, POD), (machine, NEIGHBOUR)):
            pod_network.inside(namespace, "ip", "address", "add", f"{source}/24", "dev", DEVICE)
        with pod_network.listener(machine, PORT):
            pod_network.connect(pod, NEIGHBOUR, PORT)
            yield NeighbourPod(machine, address)


@pytest.mark.parametrize("login", [True, False], ids=["bash", "python"])
async def test_other_session_is_detected_until_it_is_closed(
    client: KubeClient, closed_pod: Json, request: pytest.FixtureRequest, login: bool
) -> None:
    async with Session(connect(client, closed_pod), login=login) as session:
        shell = await session.run("echo $0 ${BASH_VERSION:+bash}", timeout=60)
        assert ("bash" in shell.output) is login, "else the probe opens its connections in another way"
        targets = await api_addresses(client)
        await check_isolation(session, targets)
        neighbour: NeighbourPod = request.getfixturevalue("neighbour")
        with pytest.raises(NotIsolated) as caught:
            await check_isolation(session, targets, api_port=PORT, settle=0)
        message = re.search(rf"the sandbox reached tcp (\S+)%{DEVICE} {PORT};", str(caught.value))
        assert message and ip_address(message[1]) == ip_address(neighbour.address), caught.value
        neighbour.close()
        await check_isolation(session, targets, api_port=PORT)
