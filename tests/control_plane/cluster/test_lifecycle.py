"""A second cluster beside the first: apart from it, repaired after any component is killed, gone without trace."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from cluster import components, layout, process
from cluster.layout import Cluster
from tests.control_plane.cluster.probe_namespace import ProbeNamespace, cluster_command, eventually


@pytest.fixture(scope="module")
def second_cluster(second: ProbeNamespace) -> Cluster:
    cluster = layout.find(Path(second.kubeconfig).parent.name, layout.swerl_home())
    assert cluster is not None
    return cluster


@pytest.fixture(scope="module")
def pod(second: ProbeNamespace, second_cluster: Cluster, probe_image: str) -> str:
    """A Pod of the second cluster that survives all that follows."""
    eventually(lambda: second.kubectl("get", "serviceaccount", "default").returncode == 0, "namespace default is ready")
    second.apply(second.pod("survivor", "serve", "8080"))
    second.wait_running("survivor")
    return "survivor"


def test_up_again_changes_nothing(second_cluster: Cluster, pod: str) -> None:
    before = _pids(second_cluster)
    cluster_command("--name", second_cluster.name, "up", "--bare")
    assert _pids(second_cluster) == before


def test_clusters_cannot_reach_each_other(
    running: Cluster, second_cluster: Cluster, second: ProbeNamespace, pod: str
) -> None:
    reached = second.reachability(
        pod, {"own apiserver": f"tcp:{second_cluster.node_ip}:6443", "first apiserver": f"tcp:{running.node_ip}:6443",
              "first dns": f"dns-tcp:{running.dns_ip}:53"})  # fmt: skip
    assert reached == {"own apiserver": True, "first apiserver": False, "first dns": False}


@pytest.mark.parametrize("component", list(components.ALL))
def test_killed_component_is_repaired(
    second_cluster: Cluster, second: ProbeNamespace, pod: str, component: str
) -> None:
    before = _pids(second_cluster)
    os.kill(before[component], signal.SIGKILL)
    eventually(lambda: component not in _pids(second_cluster), "the component is dead")
    cluster_command("--name", second_cluster.name, "up", "--bare")
    after = _pids(second_cluster)
    assert after.pop(component) != before.pop(component)
    assert after == before
    eventually(lambda: second.exec(pod, "exit", "5").returncode == 5, "exec works as before", 30)
    assert second.get("pod", pod)["status"]["containerStatuses"][0]["restartCount"] == 0


def test_proxy_replaces_rules_that_are_broken_when_it_starts(
    second_cluster: Cluster, second: ProbeNamespace, pod: str
) -> None:
    eventually(lambda: _endpoint_chains(second_cluster) != [], "the proxy has written its rules", 30)
    (endpoint,) = _endpoint_chains(second_cluster)
    os.kill(_pids(second_cluster)["proxy"], signal.SIGKILL)
    eventually(lambda: "proxy" not in _pids(second_cluster), "the proxy is dead")
    subprocess.run(
        [*process.in_node(second_cluster), "nft", "flush", "chain", "ip", "kube-proxy", endpoint], check=True
    )
    service = f"tcp:{ipaddress.ip_network(second_cluster.service_cidr)[1]}:443"
    assert second.reachability(pod, {"apiserver": service}) == {"apiserver": False}
    cluster_command("--name", second_cluster.name, "up", "--bare")
    eventually(lambda: second.reachability(pod, {"apiserver": service})["apiserver"], "the Service answers", 30)


def _endpoint_chains(cluster: Cluster) -> list[str]:
    """Names of the chains that lead from the API server's Service to its endpoint."""
    command = [*process.in_node(cluster), "nft", "--json", "list", "table", "ip", "kube-proxy"]
    done = subprocess.run(command, capture_output=True, text=True)
    items = json.loads(done.stdout)["nftables"] if done.returncode == 0 else []
    names = [item["chain"]["name"] for item in items if "chain" in item]
    return [name for name in names if name.startswith("endpoint-") and "default/kubernetes/" in name]


def test_restart_replaces_one_component(second_cluster: Cluster, pod: str) -> None:
    before = _pids(second_cluster)
    cluster_command("--name", second_cluster.name, "restart", "scheduler")
    changed = {name for name, pid in _pids(second_cluster).items() if pid != before[name]}
    assert changed == {"scheduler"}


def test_component_started_under_nohup_handles_hangup(second_cluster: Cluster, pod: str) -> None:
    """Processes of Pods could inherit an ignored signal, and no terminal would end them."""
    default = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        cluster_command("--name", second_cluster.name, "restart", "scheduler")
    finally:
        signal.signal(signal.SIGHUP, default)
    status = Path(f"/proc/{_pids(second_cluster)['scheduler']}/status").read_text()
    ignored = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:"))
    assert not ignored & 1 << signal.SIGHUP - 1


def test_down_leaves_nothing_but_the_image_store(second_cluster: Cluster, pod: str) -> None:
    cluster_command("--name", second_cluster.name, "up", "--bare")  # it runs, but where this is tried again
    _assert_removed(second_cluster, "down")
    assert [entry.name for entry in second_cluster.state.iterdir()] == ["containerd"]


def test_later_start_is_quick_and_needs_no_pull(second_cluster: Cluster, second: ProbeNamespace) -> None:
    cluster_command("--name", second_cluster.name, "up", "--bare")
    eventually(lambda: second.kubectl("get", "serviceaccount", "default").returncode == 0, "namespace default is ready")
    second.apply(second.pod("again", "sleep", "60"))
    second.wait_running("again")
    events = json.loads(second.kubectl("get", "events", "-o", "json").stdout)["items"]
    assert any("already present" in event["message"] for event in events)


def test_down_after_a_crash_leaves_nothing(running: Cluster, second_cluster: Cluster) -> None:
    cluster_command("--name", second_cluster.name, "up", "--bare")
    for name, pid in _pids(second_cluster).items():
        if name in ("containerd", "kubelet", "etcd", "registry"):
            os.kill(pid, signal.SIGKILL)
    _assert_removed(second_cluster, "down", "--purge")
    assert not second_cluster.state.exists()
    assert cluster_command("--name", second_cluster.name, "status", check=False).returncode == 1
    assert cluster_command("status").returncode == 0, "the first cluster is as it was"


def _assert_removed(cluster: Cluster, *verb: str) -> None:
    """Runs `verb` and looks for whatever the cluster had on the machine."""
    before = _remains(cluster)
    assert len(before) > 10, before
    inside = _processes(_network_namespaces(cluster))
    assert inside
    cluster_command("--name", cluster.name, *verb)
    assert _remains(cluster) == []
    assert not [(pid, name) for pid, name in inside if _target(Path(f"/proc/{pid}/ns/net")) == name]


def _pids(cluster: Cluster) -> dict[str, int]:
    status = json.loads(cluster_command("--name", cluster.name, "status", "--json", check=False).stdout)
    return {each["name"]: each["pid"] for each in status["components"] if each["pid"]}


def _remains(cluster: Cluster) -> list[str]:
    """Whatever of the machine names the cluster: processes, mounts, links, routes, rules, cgroups, files."""
    words = (f"{cluster.state}/", f"{cluster.run}/", f"{cluster.label} ", f'"{cluster.label}"', f"/{cluster.label}/")
    listings = ("ps -eo args", "ip netns", "ip route", "ip -o link", "nft list ruleset", "iptables-save")
    lines = [line for listing in listings for line in _output(listing.split())]
    lines += Path("/proc/mounts").read_text().splitlines()
    groups = [Path(root) / name for root, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    folders = [group for group in groups if group.name == cluster.label] + [Path("/run/netns") / cluster.label]
    logs = [link for link in Path("/var/log/containers").glob("*") if _target(link).startswith(str(cluster.state))]
    marked = [line for line in lines if any(word in f"{line} " for word in words)]
    return marked + [str(path) for path in (*folders, *logs, cluster.run) if path.exists() or path.is_symlink()]


def _output(command: list[str]) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _network_namespaces(cluster: Cluster) -> set[str]:
    """The node's and its Pods'."""
    handles = [Path("/run/netns") / cluster.label, *cluster.run.glob("containerd/**/netns/cni-*")]
    return {f"net:[{handle.stat().st_ino}]" for handle in handles}


def _processes(namespaces: set[str]) -> list[tuple[str, str]]:
    """Pids of those in one of the namespaces, and in which: a name alone may be another one's a moment later."""
    links = ((link.parts[2], _target(link)) for link in Path("/proc").glob("[0-9]*/ns/net"))
    return [(pid, name) for pid, name in links if name in namespaces]


def _target(link: Path) -> str:
    """Of a symbolic link; empty where it is gone, as other clusters' are at any time."""
    try:
        return str(link.readlink())
    except OSError:
        return ""
