"""The cluster's own networks, which sandboxes with egress internet must not reach.

Guarantee: `read` returns the networks of nodes, Pods, Services and API server, at most `REFRESH_SECONDS` old, and those
of the settings. It raises an ApiError rather than return less.
"""

from __future__ import annotations

import ipaddress
import time

from swerl_api.isolation import endpoint_addresses
from swerl_kube import KubeClient, NotFound

from .public_addresses import Network, node_networks
from .settings import SandboxSettings

REFRESH_SECONDS = 300.0


class ClusterNetworks:
    """Reads the networks on demand, and caches them."""

    def __init__(self, api: KubeClient, settings: SandboxSettings) -> None:
        self._api = api
        self._configured = [ipaddress.ip_network(cidr) for cidr in settings.internet_except]
        self._networks: frozenset[Network] = frozenset()
        self._read_at = float("-inf")

    async def read(self) -> frozenset[Network]:
        """The networks; raises ApiError."""
        if time.monotonic() - self._read_at > REFRESH_SECONDS:
            self._networks = frozenset([*self._configured, *await self._observed()])
            self._read_at = time.monotonic()
        return self._networks

    async def _observed(self) -> list[Network]:
        nodes = await self._api.list("v1", "nodes", None)
        found = [network for node in nodes for network in node_networks(node)]
        server = await self._api.get("discovery.k8s.io/v1", "endpointslices", "default", "kubernetes")
        found += [ipaddress.ip_network(host) for host, _ in endpoint_addresses(server)]
        return [*found, *await self._services()]

    async def _services(self) -> list[Network]:
        """The networks of Services; none before Kubernetes 1.33, which has no object for them."""
        try:
            found = await self._api.list("networking.k8s.io/v1", "servicecidrs", None)
        except NotFound:
            return []
        return [ipaddress.ip_network(cidr, strict=False) for one in found for cidr in one["spec"].get("cidrs") or []]
