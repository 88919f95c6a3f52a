"""The NetworkPolicies of sandboxes: made, restored and deleted, and what egress internet opens."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from swerl_api.base import Egress
from swerl_kube import Forbidden
from swerl_operator.sandboxes.network_policy import SandboxPolicies
from swerl_operator.sandboxes.public_addresses import internet_rules
from swerl_operator.sandboxes.settings import SandboxSettings

from tests.unit.operator.sandboxes.operator_in_memory import InMemoryOperator, run_until

PRIVATE = [
    "10.1.2.3", "172.31.0.1", "192.168.1.1", "100.100.0.1", "169.254.169.254", "127.0.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "192.0.0.192", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "2001:0:a00:1::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "140.82.121.4", "172.32.0.1", "100.128.0.1", "198.20.0.1", "223.255.255.255", "2606:50c0::1"]
NODE = {
    "spec": {"podCIDRs": ["203.0.113.0/25", "2600:1f00::/64"]},
    "status": {
        "addresses": [
            {"type": "InternalIP", "address": "192.0.2.10"},
            {"type": "ExternalIP", "address": "198.51.100.7"},
            {"type": "Hostname", "address": "node-1"},
        ]
    },
}


def opened(rules: Iterable[dict[str, Any]], address: str, port: int = 443) -> bool:
    """Whether NetworkPolicyEgressRules open an address."""
    host = ipaddress.ip_address(address)
    for rule in rules:
        if any(allowed["port"] != port for allowed in rule.get("ports", [])):
            continue
        for peer in rule["to"]:
            block = peer["ipBlock"]
            excepted = [ipaddress.ip_network(cidr) for cidr in block.get("except", [])]
            if host in ipaddress.ip_network(block["cidr"]) and not any(host in network for network in excepted):
                return True
    return False


@pytest.fixture
def server(make_api_server: Callable[..., Any]) -> Any:
    return make_api_server(random.Random(0))


async def test_policy_is_deleted_after_its_namespace_was_idle(server: Any) -> None:
    policies = SandboxPolicies(server, SandboxSettings())
    in_use: set[tuple[str, Egress]] = {("ns", "none")}
    await policies.ensure("ns", "none")
    await policies.reconcile(None, lambda: in_use, idle=0)
    assert server.policies, "removed while a group uses it"
    in_use.clear()
    await policies.reconcile(None, lambda: in_use, idle=60)
    assert server.policies, "removed before its namespace was idle long enough"
    await policies.reconcile(None, lambda: in_use, idle=0)
    assert not server.policies
    await policies.ensure("ns", "none")
    assert server.policies, "a policy that was removed is made again"


async def test_changed_or_deleted_policy_in_use_is_restored(server: Any) -> None:
    policies = SandboxPolicies(server, SandboxSettings())
    await policies.ensure("ns", "none")
    expected = server.policies["swerl-deny-all"]["spec"]
    server.policies.clear()
    await policies.reconcile(None, lambda: {("ns", "none")}, idle=60)
    assert server.policies["swerl-deny-all"]["spec"] == expected
    too_open = {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "egress": [{}]}
    server.policies["swerl-deny-all"]["spec"] = expected | too_open
    await policies.reconcile(None, lambda: {("ns", "none")}, idle=60)
    assert server.policies["swerl-deny-all"]["spec"] == expected


@pytest.mark.parametrize("address", PRIVATE)
def test_internet_does_not_open_special_addresses(address: str) -> None:
    assert not opened(internet_rules([], ["1.1.1.1"]), address)


@pytest.mark.parametrize("address", PUBLIC)
def test_internet_opens_public_addresses(address: str) -> None:
    assert opened(internet_rules([], ["1.1.1.1"]), address)


def test_private_name_server_is_open_on_its_port_alone() -> None:
    rules = internet_rules([], ["10.0.0.53", "fd00::53"])
    for server in ("10.0.0.53", "fd00::53"):
        assert opened(rules, server, 53) and not opened(rules, server, 443)


def test_exceptions_are_within_their_block() -> None:
    """The API server refuses others."""
    networks = [ipaddress.ip_network(cidr) for cidr in ("2600:1f00::/64", "fd12::/64", "10.0.0.0/16", "203.0.113.9/32")]
    public, _ = internet_rules(networks, ["1.1.1.1"])
    for peer in public["to"]:
        block = ipaddress.ip_network(peer["ipBlock"]["cidr"])
        excepted = [ipaddress.ip_network(cidr) for cidr in peer["ipBlock"]["except"]]
        assert excepted and all(one.version == block.version and one.subnet_of(block) for one in excepted)  # type: ignore[arg-type]
        assert block not in excepted


@pytest.mark.parametrize(
    ("address", "owner"),
    [
        ("203.0.113.77", "a Pod"),
        ("2600:1f00::9", "a Pod"),
        ("192.0.2.10", "a node"),
        ("198.51.100.7", "a node"),
        ("192.0.2.1", "the API server"),
        ("185.0.0.9", "a Service"),
        ("185.1.0.9", "a network of the settings"),
    ],
)
async def test_internet_does_not_open_the_clusters_own_addresses(server: Any, address: str, owner: str) -> None:
    server.nodes = [NODE]
    server.service_networks = [{"spec": {"cidrs": ["185.0.0.0/24"]}}]
    assert opened(internet_rules([], ["1.1.1.1"]), address), "only the cluster makes it special"
    policies = SandboxPolicies(server, SandboxSettings(internet_except=("185.1.0.0/24",)))
    await policies.ensure("ns", "internet")
    spec = server.policies["swerl-internet-only"]["spec"]
    assert not opened(spec["egress"], address), f"{address} belongs to {owner}"
    assert opened(spec["egress"], "140.82.121.4")
    assert spec["podSelector"] == {"matchLabels": {"swerl.dev/egress": "internet"}}
    assert spec["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in spec


async def test_no_sandbox_starts_while_the_clusters_networks_are_unknown(server: Any) -> None:
    server.forbidden = {"nodes"}
    with pytest.raises(Forbidden):
        await SandboxPolicies(server, SandboxSettings()).ensure("ns", "internet")
    assert not server.policies


async def test_cluster_without_objects_for_its_service_networks_is_served(server: Any) -> None:
    server.service_networks = None
    await SandboxPolicies(server, SandboxSettings()).ensure("ns", "internet")
    assert "swerl-internet-only" in server.policies


async def test_widened_policy_is_restored(server: Any) -> None:
    policies = SandboxPolicies(server, SandboxSettings())
    in_use: set[tuple[str, Egress]] = {("ns", "internet")}
    await policies.ensure("ns", "internet")
    expected = server.policies["swerl-internet-only"]["spec"]
    server.policies["swerl-internet-only"]["spec"] = expected | {"egress": [{}]}
    await policies.reconcile(None, lambda: in_use, idle=60)
    assert server.policies["swerl-internet-only"]["spec"] == expected


async def test_each_egress_has_its_own_policy(server: Any) -> None:
    operator = InMemoryOperator(server)
    server.declare("closed", replicas=1)
    server.declare("public", replicas=1, egress="internet")
    await run_until(server, operator, lambda: len(server.pods) == 2)
    await operator.kill()
    assert set(server.policies) == {"swerl-deny-all", "swerl-internet-only"}
    servers = server.pods["swesb-public-0"]["spec"]["dnsConfig"]["nameservers"]
    assert servers == [*SandboxSettings().internet_name_servers]
