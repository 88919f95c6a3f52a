"""The rules that policies become, without a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.families import DUAL_STACK, IPV6_ONLY
from cluster.netpol import objects
from cluster.netpol.objects import ObservedObjects, selects
from cluster.netpol.rules import EMPTY, PolicyScope, Rules, render

_SCOPE = PolicyScope(("10.244.0.0/16",), ("10.200.0.1",), "uplink")


def _pod(name: str, ip: str, namespace: str = "a", phase: str = "Running", **labels: str) -> dict[str, Any]:
    container = {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": [container]},
        "status": {"phase": phase, "podIP": ip},
    }


def _observed(pods: list[dict[str, Any]], **policies: dict[str, Any]) -> ObservedObjects:
    observed_pods = [objects.pod(item) for item in pods]
    specs = [objects.policy({"metadata": {"namespace": "a", "name": n}, "spec": s}) for n, s in policies.items()]
    return ObservedObjects(
        pods={(pod.namespace, pod.name): pod for pod in observed_pods if pod},
        namespaces={("", "a"): {}, ("", "b"): {"team": "b"}},
        policies={(each.namespace, each.name): each for each in specs},
    )


def _only_chain(rules: Rules) -> list[str]:
    return [line.strip() for line in rules.chains.splitlines()[1:-1]]


_DENY = {"podSelector": {}, "policyTypes": ["Egress", "Ingress"]}


def test_unknown_pod_addresses_are_dropped() -> None:
    table = EMPTY.table(_SCOPE)
    assert "ip saddr 10.244.0.0/16 ip saddr != @known counter drop" in table
    assert "ip daddr 10.244.0.0/16 ip daddr != @known counter drop" in table
    assert 'iifname "veth*" meta nfproto ipv6 counter drop' in table


def test_pod_without_policy_is_known_and_in_no_chain() -> None:
    rules = render(_observed([_pod("x", "10.244.0.2")]))
    assert rules == Rules("", frozenset({"10.244.0.2"}), {}, {})


def test_equal_pods_share_one_chain() -> None:
    rules = render(
        _observed([_pod(f"x{i}", f"10.244.0.{i}") for i in range(2, 130)], deny={**_DENY, "policyTypes": ["Egress"]})
    )
    assert len(rules.egress) == 128
    assert len(set(rules.egress.values())) == 1
    assert _only_chain(rules) == ["counter drop"]


def test_finished_pod_gives_its_address_back() -> None:
    assert render(_observed([_pod("x", "10.244.0.2", phase="Succeeded")])).known == frozenset()


def test_named_port_is_the_number_of_each_target() -> None:
    rule = {"to": [{"namespaceSelector": {"matchLabels": {"team": "b"}}}], "ports": [{"port": "web"}]}
    policy = {"podSelector": {"matchLabels": {"role": "s"}}, "policyTypes": ["Egress"], "egress": [rule]}
    rules = render(_observed([_pod("x", "10.244.0.2", role="s"), _pod("y", "10.244.0.3", "b")], p=policy))
    assert _only_chain(rules) == ["ip daddr 10.244.0.3 tcp dport 8080 return", "counter drop"]


def test_address_block_keeps_its_exceptions_and_port_ranges() -> None:
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
    rule = {"to": [block], "ports": [{"port": 8000, "endPort": 8080}]}
    rules = render(
        _observed([_pod("x", "10.244.0.2")], p={"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]})
    )
    assert _only_chain(rules)[0] == "ip daddr 10.0.0.0/8 ip daddr != 10.1.0.0/16 tcp dport 8000-8080 return"


def test_empty_rule_allows_everything_and_no_rule_nothing() -> None:
    allow = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}
    assert _only_chain(render(_observed([_pod("x", "10.244.0.2")], p=allow)))[0] == "return"
    assert _only_chain(render(_observed([_pod("x", "10.244.0.2")], p={"podSelector": {}})))[0] == "counter drop"


def test_cni_chain_makes_an_address_known_before_the_kubelet_does() -> None:
    observed = _observed([_pod("x", "")], deny=_DENY)
    assert render(observed).known == frozenset()
    observed.assigned["10.244.0.9"] = (("a", "x"), "uid-x")
    rules = render(observed)
    assert rules.known == {"10.244.0.9"}
    assert set(rules.egress) == set(rules.ingress) == {"10.244.0.9"}


def test_assignment_to_an_earlier_pod_of_the_same_name_is_void() -> None:
    observed = _observed([_pod("x", "")])
    observed.assigned["10.244.0.9"] = (("a", "x"), "uid-of-its-predecessor")
    assert render(observed).known == frozenset()


def test_one_more_pod_changes_elements_only() -> None:
    rules_before = render(_observed([_pod("x", "10.244.0.2")], deny=_DENY))
    rules_after = render(_observed([_pod("x", "10.244.0.2"), _pod("y", "10.244.0.3")], deny=_DENY))
    change = rules_after.change_from(rules_before)
    assert change is not None
    assert "add element inet swerl_netpol known { 10.244.0.3 }" in change
    assert "10.244.0.2" not in change


def test_new_policy_replaces_the_table() -> None:
    rules_before = render(_observed([_pod("x", "10.244.0.2")]))
    assert render(_observed([_pod("x", "10.244.0.2")], deny=_DENY)).change_from(rules_before) is None


_POD_IPS = {"x": ("10.244.0.2", "fd73::2"), "y": ("10.244.0.3", "fd73::3")}
_DUAL_SCOPE = PolicyScope(("10.244.0.0/16", "fd73::/64"), ("10.200.0.1", "fd73:1::1"), "uplink")


def _dual_stack_pod(name: str, **labels: str) -> dict[str, Any]:
    pod = _pod(name, _POD_IPS[name][0], **labels)
    pod["status"]["podIPs"] = [{"ip": ip} for ip in _POD_IPS[name]]
    return pod


def test_both_addresses_of_a_pod_share_its_chain() -> None:
    rule = {"to": [{"podSelector": {"matchLabels": {"role": "server"}}}], "ports": [{"port": 80}]}
    policy = {"podSelector": {"matchLabels": {"role": "client"}}, "policyTypes": ["Egress"], "egress": [rule]}
    pods = [_dual_stack_pod("x", role="client"), _dual_stack_pod("y", role="server")]
    rules = render(_observed(pods, p=policy), DUAL_STACK)
    assert rules.known == {*_POD_IPS["x"], *_POD_IPS["y"]}
    assert set(rules.egress) == set(_POD_IPS["x"]) and len(set(rules.egress.values())) == 1
    assert _only_chain(rules) == [
        "ip daddr { 10.244.0.3 } tcp dport 80 return",
        "ip6 daddr { fd73::3 } tcp dport 80 return",
        "counter drop",
    ]


def test_single_stack_rules_contain_no_ipv6() -> None:
    rule = {"to": [{"ipBlock": {"cidr": "2000::/3", "except": ["2002::/16"]}}]}
    policy = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]}
    observed = _observed([_dual_stack_pod("x")], p=policy)
    rules = render(observed)
    assert rules.known == {"10.244.0.2"} and _only_chain(rules) == ["counter drop"]
    blocks = "ip6 daddr 2000::/3 ip6 daddr != 2002::/16 return"
    assert _only_chain(render(observed, DUAL_STACK)) == [blocks, "counter drop"]


def test_unknown_and_link_local_sources_are_dropped_in_a_dual_stack_cluster() -> None:
    table = EMPTY.table(_DUAL_SCOPE)
    for line in (
        "ip saddr 10.244.0.0/16 ip saddr != @known counter drop",
        "ip6 saddr fd73::/64 ip6 saddr != @known6 counter drop",
        "ip6 daddr fd73::/64 ip6 daddr != @known6 counter drop",
        'iifname "veth*" ip6 saddr != fd73::/64 counter drop',
    ):
        assert line in table


def test_rules_without_ipv4_drop_its_packets_and_name_no_address_of_it() -> None:
    table = EMPTY.table(PolicyScope(("fd73::/64",), ("fd73:1::1",), "uplink"))
    assert 'iifname "veth*" meta nfproto ipv4 counter drop' in table and "ip saddr" not in table
    assert "ip6 daddr fd73::/64 ip6 daddr != @known6 counter drop" in table
    rules = render(_observed([_dual_stack_pod("x")], deny=_DENY), IPV6_ONLY)
    assert rules.known == set(rules.egress) == {"fd73::2"}


def test_one_more_dual_stack_pod_changes_a_set_of_each_family() -> None:
    pods = [_dual_stack_pod(name) for name in ("x", "y")]
    before, after = (render(_observed(pods[:number], deny=_DENY), DUAL_STACK) for number in (1, 2))
    change = after.change_from(before)
    assert change is not None and "10.244.0.2" not in change and "fd73::2" not in change
    assert "add element inet swerl_netpol known { 10.244.0.3 }" in change
    assert "add element inet swerl_netpol known6 { fd73::3 }" in change
    assert "add element inet swerl_netpol egress6 { fd73::3 : jump" in change


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "k", "operator": "In", "values": ["v"]}, True),
        ({"key": "k", "operator": "NotIn", "values": ["v"]}, False),
        ({"key": "other", "operator": "NotIn", "values": ["v"]}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "other", "operator": "DoesNotExist"}, True),
    ],
)
def test_label_expressions(expression: dict[str, Any], expected: bool) -> None:
    assert selects({"matchExpressions": [expression]}, {"k": "v"}) is expected
