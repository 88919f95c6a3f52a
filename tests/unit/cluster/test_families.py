"""IP families of a cluster: asked for by one variable, kept as long as the cluster, IPv4 alone without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cluster import components, configs, families, layout, network
from cluster.errors import ClusterError
from cluster.families import DUAL_STACK, IPV6_ONLY, SINGLE_STACK
from cluster.layout import Cluster
from cluster.process import Daemon

Reserve = Callable[..., Cluster]
IPV6_PODS = "fd73:7765:726c:201::/64"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def reserve(run_folder: Path, tmp_path: Path) -> Reserve:
    """Reserves on a machine that uses none of the clusters' networks and ports."""
    return partial(layout.reserve, home=tmp_path, run_folder=run_folder, is_free=lambda cluster: True)


@pytest.mark.parametrize(
    ("text", "requested"),
    [
        ("", None),
        ("IPv4", SINGLE_STACK),
        ("IPv4,IPv6", DUAL_STACK),
        ("IPv4, IPv6", DUAL_STACK),
        ("IPv6", IPV6_ONLY),
    ],
)
def test_families_are_read_from_one_variable(
    text: str, requested: families.Families | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWERL_IP_FAMILIES", text)
    assert families.requested() == requested


@pytest.mark.parametrize("text", ["IPv6,IPv4", "ipv4", "IPv4,IPv4"])
def test_other_families_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWERL_IP_FAMILIES", text)
    with pytest.raises(ClusterError, match="use IPv4 or IPv4,IPv6 or IPv6"):
        families.requested()


def test_cluster_keeps_the_families_it_was_made_with(run_folder: Path, tmp_path: Path, reserve: Reserve) -> None:
    first, second = reserve("default"), reserve("second", families=DUAL_STACK)
    assert (first.families, second.families) == (SINGLE_STACK, DUAL_STACK)
    assert "families" not in json.loads((first.run / "owner.json").read_text())
    for cluster in (first, second):
        assert reserve(cluster.name) == cluster == layout.find(cluster.name, tmp_path, run_folder)
    with pytest.raises(
        ClusterError, match="'default' has ipFamilies IPv4, not IPv4,IPv6: remove it with `make cluster"
    ):
        reserve("default", families=DUAL_STACK)
    assert layout.find("default", tmp_path, run_folder) == first


def arguments(daemon: Daemon) -> list[str]:
    """The command line, without the folders of the programs."""
    return [argument for argument in daemon.argv if argument.startswith("--")]


def test_components_and_pods_get_both_families(tmp_path: Path) -> None:
    cluster = Cluster("second", 1, tmp_path, families=DUAL_STACK)
    node = f"{cluster.node_ip},fd73:7765:726c:101::2"
    assert f"--node-ip={node}" in arguments(components.kubelet(cluster))
    assert f"--cluster-cidr={cluster.pod_cidr},{IPV6_PODS}" in arguments(components.proxy(cluster))
    apiserver = arguments(components.apiserver(cluster))
    assert f"--service-cluster-ip-range={cluster.service_cidr},fd73:7765:726c:301::/112" in apiserver
    assert "--bind-address=::" in apiserver
    ipam = json.loads(configs.cni(cluster))["plugins"][0]["ipam"]
    assert ipam["ranges"] == [[{"subnet": cluster.pod_cidr}], [{"subnet": IPV6_PODS}]]
    assert ipam["routes"] == [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]


@pytest.mark.parametrize("name", components.ALL)
def test_single_stack_cluster_knows_no_ipv6(tmp_path: Path, name: str) -> None:
    cluster = Cluster("default", 0, tmp_path)
    assert not any(families.ULA_PREFIX in text or "::" in text for text in components.ALL[name](cluster).argv)
    assert "::" not in configs.cni(cluster) + configs.kubelet(cluster)


def test_cluster_without_ipv4_has_no_address_of_it_but_loopback(tmp_path: Path) -> None:
    cluster = Cluster("second", 1, tmp_path, families=IPV6_ONLY)
    started = "".join(text for name in components.ALL for text in components.ALL[name](cluster).argv)
    assert "10." not in started.replace("127.0.0.1:10", "")
    assert json.loads(configs.cni(cluster))["plugins"][0]["ipam"]["routes"] == [{"dst": "::/0"}]
    assert network.nameservers(cluster.families) == []
    assert (cluster.server, cluster.dns_ip) == ("https://[fd73:7765:726c:101::2]:6443", "fd73:7765:726c:301::a")
    assert json.loads(configs.kubelet(cluster))["clusterDNS"] == [cluster.dns_ip]
