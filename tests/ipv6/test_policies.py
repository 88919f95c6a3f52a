"""NetworkPolicies over IPv6: what each kind of rule lets through, also from the first packet of a new Pod."""

from __future__ import annotations

import json

import pytest

from cluster.layout import Cluster
from tests.control_plane.cluster.probe_namespace import Json, ProbeNamespace
from tests.control_plane.cluster.test_netpol import CLIENT, PORTS, policies, policy, reached
from tests.ipv6.conftest import ipv6_address

__all__ = ["policies"]

EVERYTHING = {"pod", "other port", "other namespace", "service", "apiserver"}


def service_of_ipv6(name: str, role: str) -> Json:
    spec = {
        "ipFamilyPolicy": "PreferDualStack",
        "selector": {"role": role},
        "ports": [{"port": 80, "targetPort": 8080}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def targets(running: Cluster, probes: ProbeNamespace, other_probes: ProbeNamespace) -> dict[str, str]:
    """What a client could reach over IPv6: target name -> kind:address."""
    probes.apply(
        probes.pod("client", "sleep", "3600", labels={"role": "sandbox"}),
        probes.pod("server", "serve", "8080", "8081", labels={"role": "server"}, ports=PORTS),
        service_of_ipv6("server", "server"),
    )
    other_probes.apply(other_probes.pod("server", "serve", "8080", labels={"role": "server"}, ports=PORTS))
    probes.wait_running("client", "server")
    other_probes.wait_running("server")
    server, other = (ipv6_address(place.get("pod", "server")) for place in (probes, other_probes))
    [service] = [ip for ip in probes.get("service", "server")["spec"]["clusterIPs"] if ":" in ip]
    return {
        "pod": f"tcp:[{server}]:8080",
        "other port": f"tcp:[{server}]:8081",
        "other namespace": f"tcp:[{other}]:8080",
        "service": f"tcp:[{service}]:80",
        "apiserver": f"tcp:[{running.node_ips[-1]}]:6443",
        "link-local": "linklocal:6443",
    }


def test_without_policy_everything_but_the_link_local_address_is_reached(
    probes: ProbeNamespace, targets: dict[str, str]
) -> None:
    assert reached(probes, targets, EVERYTHING) == EVERYTHING


@pytest.mark.usefixtures("policies")
def test_deny_all_blocks_everything(probes: ProbeNamespace, targets: dict[str, str]) -> None:
    probes.apply(policy("deny", **CLIENT, policyTypes=["Egress", "Ingress"]))
    assert reached(probes, targets, set()) == set()


@pytest.mark.usefixtures("policies")
def test_selected_pods_are_reached_at_the_allowed_port_also_by_their_service(
    probes: ProbeNamespace, targets: dict[str, str]
) -> None:
    rule = {"to": [{"podSelector": {"matchLabels": {"role": "server"}}}], "ports": [{"port": "web"}]}
    probes.apply(policy("one", **CLIENT, policyTypes=["Egress"], egress=[rule]))
    assert reached(probes, targets, {"pod", "service"}) == {"pod", "service"}


@pytest.mark.usefixtures("policies")
def test_address_blocks_with_exceptions(running: Cluster, probes: ProbeNamespace, targets: dict[str, str]) -> None:
    other = targets["other namespace"].removeprefix("tcp:[").partition("]")[0]
    block = {"ipBlock": {"cidr": "::/0", "except": [running.link_cidrs[-1], f"{other}/128"]}}
    rule = {"to": [block], "ports": [{"port": 8000, "endPort": 8080}, {"port": 6443}]}
    probes.apply(policy("block", podSelector={}, policyTypes=["Egress"], egress=[rule]))
    assert reached(probes, targets, {"pod", "service"}) == {"pod", "service"}


@pytest.mark.usefixtures("policies")
def test_ingress_policy_matches_the_source_and_exempts_the_node(
    probes: ProbeNamespace, other_probes: ProbeNamespace, targets: dict[str, str]
) -> None:
    rule = {"from": [CLIENT], "ports": [{"port": "web"}]}
    probes.apply(policy("in", podSelector={"matchLabels": {"role": "server"}}, ingress=[rule]))
    allowed = EVERYTHING - {"other port"}
    assert reached(probes, targets, allowed) == allowed
    assert other_probes.reachability("server", {"pod": targets["pod"]}) == {"pod": False}
    assert probes.exec("server", "exit", "3").returncode == 3


@pytest.mark.usefixtures("policies")
def test_first_packet_of_a_new_pod_meets_its_final_rules(probes: ProbeNamespace, targets: dict[str, str]) -> None:
    probes.apply(policy("deny", **CLIENT, policyTypes=["Egress", "Ingress"]))
    server = targets["pod"].removeprefix("tcp:")
    labels = {"denied": {"role": "sandbox"}, "free": {}}
    probes.apply(
        *(
            probes.pod(name, "hammer", server, "3", labels=label, restartPolicy="Never")
            for name, label in labels.items()
        )
    )
    count = {}
    for name in labels:
        done = probes.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s", f"pod/{name}")
        assert done.returncode == 0, done.stderr
        count[name] = json.loads(probes.kubectl("logs", name).stdout)
    assert count["denied"]["successes"] == 0 < count["denied"]["attempts"], count
    assert count["free"]["successes"] == count["free"]["attempts"] > 0, count
