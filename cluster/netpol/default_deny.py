"""The table before the enforcer's first rules: no Pod address is known, so no Pod talks."""

import subprocess

from cluster import network, process
from cluster.errors import ClusterError
from cluster.layout import Cluster
from cluster.netpol.rules import EMPTY, TABLE, PolicyScope


def scope(cluster: Cluster) -> PolicyScope:
    return PolicyScope(cluster.pod_cidrs, cluster.host_ips, network.UPLINK)


def install(cluster: Cluster) -> None:
    """Install the table that denies all, unless the node has one."""
    prefix = process.in_node(cluster)
    listing = [*prefix, "nft", "list", "chain", "inet", TABLE, "forwarded"]
    if subprocess.run(listing, capture_output=True).returncode == 0:
        return
    closed = EMPTY.table(scope(cluster))
    done = subprocess.run([*prefix, "nft", "-f", "-"], input=closed, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"nft refuses the NetworkPolicy table: {done.stderr.strip()[:600]}")
