"""The addresses that a sandbox with egress internet may reach. Pure.

Guarantee: no rule opens an address that is private, shared, link-local, loopback, multicast or reserved, or that
belongs to the cluster's own networks. The name servers are the one exception, on port 53.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from swerl_kube import Json

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

INTERNET_V4 = ipaddress.IPv4Network("0.0.0.0/0")
INTERNET_V6 = ipaddress.IPv6Network("2000::/3")  # global unicast: everything else of ::/0 is special
SPECIAL_V4 = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared by carriers, and by Pods of some clouds
    "127.0.0.0/8",  # loopback
    "169.254.0.0/16",  # link-local, with the metadata address
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments, with metadata addresses of some clouds
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarks of networks
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, with the broadcast address
)
SPECIAL_V6 = (
    "2001::/23",  # protocol assignments, with Teredo, which leads to IPv4 addresses
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4, which leads to IPv4 addresses
)


def internet_rules(cluster: Iterable[Network], name_servers: Iterable[str]) -> list[Json]:
    """NetworkPolicyEgressRules: public addresses outside of the networks `cluster`, and the name servers."""
    networks = list(cluster)
    special_v4 = [ipaddress.IPv4Network(text) for text in SPECIAL_V4]
    special_v6 = [ipaddress.IPv6Network(text) for text in SPECIAL_V6]
    closed_v4 = [*special_v4, *(one for one in networks if isinstance(one, ipaddress.IPv4Network))]
    closed_v6 = [*special_v6, *(one for one in networks if isinstance(one, ipaddress.IPv6Network))]
    blocks = [
        _block(INTERNET_V4, ipaddress.collapse_addresses(closed_v4)),
        _block(INTERNET_V6, ipaddress.collapse_addresses(one for one in closed_v6 if one.subnet_of(INTERNET_V6))),
    ]
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    servers = [{"ipBlock": {"cidr": str(ipaddress.ip_network(server))}} for server in name_servers]
    return [{"to": blocks}, {"to": servers, "ports": ports}]


def node_networks(node: Json) -> Iterator[Network]:
    """The node's addresses and those of its Pods."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    for cidr in spec.get("podCIDRs") or []:
        yield ipaddress.ip_network(cidr, strict=False)
    for address in status.get("addresses") or []:
        if address["type"] in ("InternalIP", "ExternalIP"):
            yield ipaddress.ip_network(address["address"])


def _block(cidr: Network, excepted: Iterable[Network]) -> Json:
    return {"ipBlock": {"cidr": str(cidr), "except": [str(network) for network in excepted]}}
