"""The node's own network namespace and its link to the machine.

Guarantees: addresses, routes, firewall tables and every Pod's interface live in the namespace `swerl<index>` and vanish
with it; on the machine itself there is one veth link, two routes, and one nftables table, all of the same name.
Pods reach the outside through the machine (masqueraded); the machine reaches Pods and Services by address.
IPv6 has routes and a table of its own: Pods reach the machine over it, and nothing beyond.
"""

import json
import subprocess
from pathlib import Path

from cluster import process
from cluster.errors import ClusterError
from cluster.families import IPV4, IPV6, Families
from cluster.layout import Cluster

UPLINK = "uplink"  # the node's end of the link; Pod interfaces are veth*
_NODE_SETTINGS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    # A Pod would otherwise reach every [::] listener of the node over the link-local address of its veth.
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
}
_IPV6_SETTINGS = {
    "net.ipv6.conf.all.disable_ipv6": "0",
    "net.ipv6.conf.default.disable_ipv6": "0",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv6.conf.default.accept_dad": "0",  # a Pod's gateway answers at once
    "net.ipv6.conf.default.accept_ra": "0",
}


def up(cluster: Cluster) -> None:
    """Makes namespace, link, addresses, routes and masquerading; leaves alone what is there."""
    if not Path(f"/run/netns/{cluster.label}").exists():
        _ip("netns", "add", cluster.label)
    ipv6 = IPV6 in cluster.families
    for name, value in (_NODE_SETTINGS | (_IPV6_SETTINGS if ipv6 else {})).items():
        needed = ipv6 or not name.startswith("net.ipv6")
        _in_node(cluster, "sysctl", "-qw", f"{name}={value}", check=needed)
    if not Path(f"/sys/class/net/{cluster.label}").exists():
        _ip(
            "link",
            "add",
            cluster.label,
            "mtu",
            str(mtu()),
            "type",
            "veth",
            "peer",
            "name",
            UPLINK,
            "mtu",
            str(mtu()),
            "netns",
            cluster.label,
        )
    _ip("link", "set", cluster.label, "up")
    _in_node(cluster, "ip", "link", "set", "lo", "up")
    _in_node(cluster, "ip", "link", "set", UPLINK, "up")
    if IPV4 in cluster.families:
        _add_ipv4(cluster)
    if ipv6:
        _add_ipv6(cluster)


def exists(cluster: Cluster) -> bool:
    return Path(f"/run/netns/{cluster.label}").exists() and Path(f"/sys/class/net/{cluster.label}").exists()


def down(cluster: Cluster) -> None:
    """Removes all of it; the namespace must hold no process."""
    _succeeds("ip", "link", "delete", cluster.label)
    _succeeds("ip", "netns", "delete", cluster.label)
    for family in ("ip", "ip6"):
        _succeeds("nft", "delete", "table", family, cluster.label)
    for side in ("-i", "-o"):
        while _succeeds("iptables", *_forward_rule("-D", cluster, side)):
            pass
    _restore_forwarding(cluster)


def mtu() -> int:
    """Of the machine's default route, so that Pods send no packet that must be cut."""
    routes = json.loads(
        subprocess.run(
            ["ip", "-4", "-j", "route", "show", "default"], capture_output=True, text=True, check=True
        ).stdout
        or "[]"
    )
    return int(Path(f"/sys/class/net/{routes[0]['dev']}/mtu").read_text()) if routes else 1500


def nameservers(families: Families) -> list[str]:
    """The machine's resolvers that a Pod can reach: none over IPv6, which the machine does not forward."""
    if IPV4 not in families:
        return []
    for path in (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf")):
        if path.exists():
            rows = [line.split() for line in path.read_text().splitlines()]
            found = [word[1] for word in rows if len(word) > 1 and word[0] == "nameserver"]
            usable = [address for address in found if not address.startswith("127.") and ":" not in address]
            if usable:
                return usable
    return []


def _add_ipv4(cluster: Cluster) -> None:
    """Addresses, routes and masquerading of IPv4."""
    _ip("addr", "replace", f"{cluster.host_ip}/24", "dev", cluster.label)
    _in_node(cluster, "ip", "addr", "replace", f"{cluster.node_ip}/24", "dev", UPLINK)
    _in_node(cluster, "ip", "route", "replace", "default", "via", cluster.host_ip)
    for cidr in (cluster.pod_cidr, cluster.service_cidr):
        _ip("route", "replace", cidr, "via", cluster.node_ip)
    _enable_forwarding(cluster)


def _enable_forwarding(cluster: Cluster) -> None:
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    if forwarding.read_text().strip() == "0":
        (cluster.run / "forwarding-was-off").touch()
        forwarding.write_text("1")
    table = f"""add table ip {cluster.label}
delete table ip {cluster.label}
table ip {cluster.label} {{
  chain forward {{
    type filter hook forward priority 0; policy accept;
    iifname "{cluster.label}" oifname "swerl*" drop comment "clusters never meet"
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ip saddr {{ {cluster.link_cidr}, {cluster.pod_cidr} }} oifname != "{cluster.label}" masquerade
  }}
}}
"""
    _run(["nft", "-f", "-"], stdin=table)
    if "-P FORWARD DROP" in _run(["iptables", "-S", "FORWARD"]):
        for side in ("-i", "-o"):
            if not _succeeds("iptables", *_forward_rule("-C", cluster, side)):
                _run(["iptables", *_forward_rule("-I", cluster, side)])


def _add_ipv6(cluster: Cluster) -> None:
    """IPv6 between the machine and the node; the machine forwards none, so its own routes stay as they are."""
    host, node = cluster.host_ips[-1], cluster.node_ips[-1]
    _run(["sysctl", "-qw", f"net.ipv6.conf.{cluster.label}.disable_ipv6=0"])
    _ip("addr", "replace", f"{host}/64", "dev", cluster.label, "nodad")
    _in_node(cluster, "ip", "addr", "replace", f"{node}/64", "dev", UPLINK, "nodad")
    _in_node(cluster, "ip", "-6", "route", "replace", "default", "via", host)
    for cidr in (cluster.pod_cidrs[-1], cluster.service_cidrs[-1]):
        _ip("-6", "route", "replace", cidr, "via", node)
    table = f"""add table ip6 {cluster.label}
delete table ip6 {cluster.label}
table ip6 {cluster.label} {{
  chain forward {{
    type filter hook forward priority 0; policy accept;
    iifname "{cluster.label}" drop
    oifname "{cluster.label}" drop
  }}
}}
"""
    _run(["nft", "-f", "-"], stdin=table)


def _forward_rule(verb: str, cluster: Cluster, side: str) -> list[str]:
    return [verb, "FORWARD", side, cluster.label, "-j", "ACCEPT"]


def _restore_forwarding(cluster: Cluster) -> None:
    """Switches forwarding off again if a cluster switched it on and no other cluster needs it."""
    marker = cluster.run / "forwarding-was-off"
    others = [path for path in Path("/sys/class/net").glob("swerl*") if path.name != cluster.label]
    if not marker.exists():
        return
    if others:
        (cluster.run.parent / others[0].name.removeprefix("swerl") / marker.name).touch()
    else:
        Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
    marker.unlink()


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _in_node(cluster: Cluster, *command: str, check: bool = True) -> None:
    if check:
        _run([*process.in_node(cluster), *command])
    else:
        _succeeds(*process.in_node(cluster), *command)


def _succeeds(*command: str) -> bool:
    """True when the command succeeded."""
    return subprocess.run(command, capture_output=True).returncode == 0


def _run(command: list[str], stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
