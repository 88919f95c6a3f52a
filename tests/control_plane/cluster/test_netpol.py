"""NetworkPolicy on the wire: what each policy lets through, and that nothing slips through before it is in force."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.layout import Cluster
from tests.control_plane import pod_network
from tests.control_plane.cluster.probe_namespace import Json, ProbeNamespace
from tests.ports import free_port

PORTS = [{"name": "web", "containerPort": 8080}]
CLIENT = {"podSelector": {"matchLabels": {"role": "sandbox"}}}
_BEFORE_POLICY, _AFTER_POLICY = -200, -100  # its own priority is -150
_ALL = {"pod", "other port", "other namespace", "apiserver service", "apiserver node", "dns", "dns tcp"}


@pytest.fixture(scope="module")
def targets(running: Cluster, probes: ProbeNamespace, other_probes: ProbeNamespace) -> dict[str, str]:
    """Everything that a client could reach: target name -> kind:address."""
    probes.apply(
        probes.pod("client", "sleep", "3600", labels={"role": "sandbox"}),
        probes.pod("server", "serve", "8080", "8081", labels={"role": "server"}, ports=PORTS),
    )
    other_probes.apply(other_probes.pod("server", "serve", "8080", labels={"role": "server"}, ports=PORTS))
    client, server = probes.wait_running("client", "server")["server"], other_probes.wait_running("server")["server"]
    return {
        "pod": f"tcp:{client}:8080",
        "other port": f"tcp:{client}:8081",
        "other namespace": f"tcp:{server}:8080",
        "apiserver service": f"tcp:{running.kubernetes_ip}:443",
        "apiserver node": f"tcp:{running.node_ip}:6443",
        "dns": f"dns-udp:{running.dns_ip}:53",
        "dns tcp": f"dns-tcp:{running.dns_ip}:53",
        "ipv6 link-local": "linklocal:6443",
        "machine": f"tcp:{running.host_ip}:{running.registry_port}",
    }


@pytest.fixture
def policies(probes: ProbeNamespace) -> Iterator[None]:
    yield
    probes.kubectl("delete", "networkpolicy", "--all")


def policy(name: str, **spec: object) -> Json:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


def reached(probes: ProbeNamespace, targets: dict[str, str], expected: set[str], seconds: float = 40) -> set[str]:
    """Targets that the client reaches, as soon as they are `expected`; a policy takes effect after some tens of ms."""
    deadline = time.monotonic() + seconds
    while True:
        found = {name for name, answers in probes.reachability("client", targets).items() if answers}
        if found == expected or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_without_policy_the_whole_cluster_is_reachable(probes: ProbeNamespace, targets: dict[str, str]) -> None:
    assert reached(probes, targets, _ALL) == _ALL


def test_link_local_address_of_the_node_is_blocked(
    running: Cluster, probes: ProbeNamespace, targets: dict[str, str]
) -> None:
    """Here the node has IPv6 on this one Pod's link: listeners are reached on any link but the Pod's own."""
    node, port, neighbour = Path("/run/netns") / running.label, free_port(), f"side{os.getpid()}"
    pod = pod_network.pod_namespace(probes.get("pod", "client")["metadata"]["uid"])
    device = _other_end(pod, node)
    assert probes.reachability("client", {"pod": targets["pod"]}) == {"pod": True}, (
        "now it knows its gateway's hardware"
    )
    with (
        _ipv6(node, device),
        _counted(node, device) as packets,
        pod_network.listener(node, port),
        pod_network.link(pod, node, neighbour) as address,
    ):
        node_address = pod_network.link_local(pod_network.hardware(node, device))
        addresses = {
            "beside": f"tcp:[{address}%{neighbour}]:{port}",
            "own": f"tcp:[{node_address}%eth0]:{port}",
            "own, from the hardware address": f"linklocal:{port}",
        }
        assert {name for name, reached in probes.reachability("client", addresses).items() if reached} == {"beside"}
        arrived, passed = packets()
        assert arrived > 0 == passed, "what the Pod sent did arrive, and was dropped"


@contextmanager
def _ipv6(node: Path, device: str) -> Iterator[None]:
    pod_network.enable_ipv6(node, device)
    try:
        yield
    finally:
        pod_network.inside(node, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")


@contextmanager
def _counted(node: Path, device: str) -> Iterator[Callable[[], list[int]]]:
    """Counts the IPv6 packets of a device that arrived at the node, and those that passed the policy engine."""
    table = f"test{os.getpid()}"
    rules = "".join(
        f"add chain inet {table} at{i} {{ type filter hook prerouting priority {priority}; }}; "
        f'add rule inet {table} at{i} iifname "{device}" meta nfproto ipv6 counter; '
        for i, priority in enumerate((_BEFORE_POLICY, _AFTER_POLICY))
    )
    pod_network.inside(node, "nft", f"add table inet {table}; {rules}")

    def packets() -> list[int]:
        listed = pod_network.inside(node, "nft", "list", "table", "inet", table)
        return [int(number) for number in re.findall(r"counter packets (\d+)", listed)]

    try:
        yield packets
    finally:
        pod_network.inside(node, "nft", f"delete table inet {table}")


def _other_end(pod: Path, node: Path) -> str:
    """The node's interface on the way of a Pod's eth0."""
    index = re.search(r"eth0@if(\d+)", pod_network.inside(pod, "ip", "-o", "link", "show", "eth0"))
    assert index is not None
    links = pod_network.inside(node, "ip", "-o", "link")
    found = re.search(rf"^{index[1]}: (\w+)", links, re.MULTILINE)
    assert found is not None, links
    return found[1]


@pytest.mark.usefixtures("policies")
def test_deny_all_blocks_everything(probes: ProbeNamespace, targets: dict[str, str]) -> None:
    probes.apply(policy("deny", **CLIENT, policyTypes=["Egress", "Ingress"]))
    assert reached(probes, targets, set()) == set()


@pytest.mark.usefixtures("policies")
def test_egress_rules_add_up_and_open_nothing_else(probes: ProbeNamespace, targets: dict[str, str]) -> None:
    dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
           "podSelector": {"matchLabels": {"app": "coredns"}}}  # fmt: skip
    namespace_peer = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["b"]}]}}
    egress_rule = {"to": [{"podSelector": {"matchLabels": {"role": "server"}}}], "ports": [{"port": 8080}]}
    two = {"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}]}
    three = {"to": [namespace_peer], "ports": [{"port": "web"}]}
    probes.apply(policy("one", **CLIENT, policyTypes=["Egress"], egress=[egress_rule]),
                policy("more", **CLIENT, policyTypes=["Egress"], egress=[two, three]))  # fmt: skip
    assert reached(probes, targets, {"pod", "dns", "other namespace"}) == {"pod", "dns", "other namespace"}


@pytest.mark.usefixtures("policies")
def test_address_blocks_with_exceptions(running: Cluster, probes: ProbeNamespace, targets: dict[str, str]) -> None:
    address = targets["other namespace"].split(":")[1]
    block = {"ipBlock": {"cidr": "0.0.0.0/0", "except": [running.link_cidr, f"{address}/32"]}}
    rule = {"to": [block], "ports": [{"port": 8000, "endPort": 8080}, {"port": 443}, {"port": 6443}]}
    probes.apply(policy("block", podSelector={}, policyTypes=["Egress"], egress=[rule]))
    assert reached(probes, targets, {"pod"}) == {"pod"}


@pytest.mark.usefixtures("policies")
def test_ingress_policy_matches_the_source_and_exempts_the_node(
    probes: ProbeNamespace, other_probes: ProbeNamespace, targets: dict[str, str]
) -> None:
    rule = {"from": [CLIENT], "ports": [{"port": "web"}]}
    probes.apply(policy("in", podSelector={"matchLabels": {"role": "server"}}, ingress=[rule]))
    assert reached(probes, targets, _ALL - {"other port"}) == _ALL - {"other port"}
    assert other_probes.reachability("server", {"pod": targets["pod"]}) == {"pod": False}
    assert probes.exec("server", "exit", "3").returncode == 3


@pytest.mark.usefixtures("policies")
def test_first_packet_of_a_new_pod_meets_its_final_rules(probes: ProbeNamespace, targets: dict[str, str]) -> None:
    probes.apply(policy("deny", **CLIENT, policyTypes=["Egress", "Ingress"]))
    server = targets["pod"].removeprefix("tcp:")
    denied, free = [f"denied{i}" for i in range(4)], [f"free{i}" for i in range(2)]
    probes.apply(
        *(
            probes.pod(name, "hammer", server, "3", labels={"role": "sandbox"}, restartPolicy="Never")
            for name in denied
        ),
        *(probes.pod(name, "hammer", server, "3", restartPolicy="Never") for name in free),
    )
    for name in denied + free:
        done = probes.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s", f"pod/{name}")
        assert done.returncode == 0, done.stderr
    count = {name: json.loads(probes.kubectl("logs", name).stdout) for name in denied + free}
    assert all(count[name]["successes"] == 0 < count[name]["attempts"] for name in denied), count
    assert all(count[name]["successes"] == count[name]["attempts"] > 0 for name in free), count
