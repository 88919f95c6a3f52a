"""Where a cluster lives: folders, addresses, names.

Guarantees: two clusters on one machine never share an index, and every name, address and folder follows from the name
and the index alone. An index is reserved under `/run/swerl/<index>`, machine-wide, whatever `SWERL_HOME` is; a
reservation of an earlier boot is void. An index whose networks or registry port the machine already uses is skipped.
"""

import fcntl
import ipaddress
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError
from cluster.families import IPV4, IPV6, SINGLE_STACK, ULA_PREFIX, Families, routed_networks, url_host

RUN_FOLDER = Path("/run/swerl")
DEFAULT_NAME = "default"
NODE_NAME = "swerl-node"
REGISTRY_NAME = "registry.swerl:5000"  # in image references; containerd maps it to the local registry
REGISTRY_PORT = 5000
MAX_CLUSTERS = 16
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


@dataclass(frozen=True)
class Cluster:
    """One cluster of this machine."""

    name: str
    index: int
    home: Path
    run_folder: Path = RUN_FOLDER
    families: Families = SINGLE_STACK

    @property
    def state(self) -> Path:
        """Everything the cluster stores; `down` removes it, but for the image store unless purged."""
        return state_folder(self.home, self.name)

    @property
    def run(self) -> Path:
        """Sockets and containerd's runtime state; gone with the cluster and with a reboot."""
        return self.run_folder / str(self.index)

    @property
    def label(self) -> str:
        """Name of the network namespace, the host's link, the host's nftables table and the cgroup."""
        return f"swerl{self.index}"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def log(self) -> Path:
        return self.state / "log"

    @property
    def volumes(self) -> Path:
        """Folders of persistent volumes: <namespace>/<claim>."""
        return self.state / "volumes"

    @property
    def registry_storage(self) -> Path:
        """Blobs and manifests; shared by all clusters of one home."""
        return self.home / "registry"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def host_ips(self) -> tuple[str, ...]:
        """The machine's end of the link to the node: an address of each family. The following are alike."""
        return self._of_families(f"10.200.{self.index}.1", f"{self._ula(1)}::1")

    @property
    def node_ips(self) -> tuple[str, ...]:
        return self._of_families(f"10.200.{self.index}.2", f"{self._ula(1)}::2")

    @property
    def link_cidrs(self) -> tuple[str, ...]:
        return self._of_families(f"10.200.{self.index}.0/24", f"{self._ula(1)}::/64")

    @property
    def pod_cidrs(self) -> tuple[str, ...]:
        return self._of_families(f"10.{244 - self.index}.0.0/16", f"{self._ula(2)}::/64")

    @property
    def service_cidrs(self) -> tuple[str, ...]:
        return self._of_families(f"10.{96 + self.index}.0.0/16", f"{self._ula(3)}::/112")

    @property
    def host_ip(self) -> str:
        """`host_ips` of the first family; the following are alike."""
        return self.host_ips[0]

    @property
    def node_ip(self) -> str:
        return self.node_ips[0]

    @property
    def link_cidr(self) -> str:
        return self.link_cidrs[0]

    @property
    def pod_cidr(self) -> str:
        return self.pod_cidrs[0]

    @property
    def service_cidr(self) -> str:
        return self.service_cidrs[0]

    @property
    def kubernetes_ip(self) -> str:
        """ClusterIP of the `kubernetes` Service."""
        return str(ipaddress.ip_network(self.service_cidr)[1])

    @property
    def dns_ip(self) -> str:
        return str(ipaddress.ip_network(self.service_cidr)[10])

    @property
    def server(self) -> str:
        return f"https://{url_host(self.node_ip)}:6443"

    @property
    def registry_port(self) -> int:
        """Port on 127.0.0.1 where images are pushed."""
        return REGISTRY_PORT + self.index

    def _of_families(self, ipv4: str, ipv6: str) -> tuple[str, ...]:
        of_family = {IPV4: ipv4, IPV6: ipv6}
        return tuple(of_family[family] for family in self.families)

    def _ula(self, network: int) -> str:
        return f"{ULA_PREFIX}:{network}{self.index:02x}"


def swerl_home() -> Path:
    """`$SWERL_HOME`, or `~/.cache/swerl`: absolute and without `..`, as every path made from it is then."""
    return Path(os.path.abspath(os.environ.get("SWERL_HOME") or Path.home() / ".cache" / "swerl"))  # noqa: PTH100


def cluster_name() -> str:
    """The cluster of every command without `--name`: `$SWERL_CLUSTER_NAME`, or `default`; raises ClusterError for an
    invalid name."""
    return check_name(os.environ.get("SWERL_CLUSTER_NAME") or DEFAULT_NAME)


def make_command(target: str, name: str) -> str:
    """What to type for that target and the cluster of that name."""
    return f"make {target}" if name == DEFAULT_NAME else f"SWERL_CLUSTER_NAME={name} make {target}"


def image_listing(home: Path) -> Path:
    """Where a build of images that came to its end leaves their references."""
    return home / "images" / "images.json"


def state_folder(home: Path, name: str) -> Path:
    """Folder with all files of that cluster."""
    return home / "cluster" if name == DEFAULT_NAME else home / "clusters" / name


def check_name(name: str) -> str:
    """`name` itself; raises ClusterError when it is no DNS label of at most 32 characters."""
    if not _NAME.fullmatch(name):
        raise ClusterError(f"cluster name {name!r} is not a DNS label of at most 32 characters (a-z, 0-9, -)")
    return name


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def find(name: str, home: Path, run_folder: Path = RUN_FOLDER) -> Cluster | None:
    """The cluster that this boot has reserved under `name` and `home`, running or not."""
    state = str(state_folder(home, name))
    for index, owner in _reservations(run_folder):
        if owner.get("state") == state and owner.get("boot") == boot_id():
            return Cluster(name, index, home, run_folder, tuple(owner.get("families", SINGLE_STACK)))
    return None


def registry(run_folder: Path = RUN_FOLDER) -> str:
    """Where images are pushed: `$SWERL_REGISTRY`, else the own registry of the cluster `cluster_name()` (host and
    port)."""
    if given := os.environ.get("SWERL_REGISTRY"):
        return given
    name, home = cluster_name(), swerl_home()
    cluster = find(name, home, run_folder) or Cluster(name, 0, home)
    return f"127.0.0.1:{cluster.registry_port}"


def is_free_on_this_machine(cluster: Cluster) -> bool:
    """Whether the machine uses neither the networks nor the registry port of that cluster."""
    if Path(f"/sys/class/net/{cluster.label}").exists() or _listens(cluster.registry_port):
        return False
    cidrs = (*cluster.link_cidrs, *cluster.pod_cidrs, *cluster.service_cidrs)
    required = [ipaddress.ip_network(cidr) for cidr in cidrs]
    used_networks = [used for family in cluster.families for used in routed_networks(family)]
    return not any(net.version == used.version and net.overlaps(used) for net in required for used in used_networks)


def reserve(
    name: str,
    home: Path,
    run_folder: Path = RUN_FOLDER,
    is_free: Callable[[Cluster], bool] = is_free_on_this_machine,
    families: Families | None = None,
) -> Cluster:
    """The cluster of that name, with the index it has or else the lowest one that is neither reserved nor in use.

    `families`: those of a new cluster, by default IPv4; raises ClusterError where the existing one has others.
    """
    run_folder.mkdir(parents=True, exist_ok=True)
    with locked(run_folder / "reservations.lock"):
        known = find(name, home, run_folder)
        if known:
            return _with_families(known, families)
        taken = {index for index, owner in _reservations(run_folder) if owner.get("boot") == boot_id()}
        for index in range(MAX_CLUSTERS):
            cluster = Cluster(name, index, home, run_folder, families or SINGLE_STACK)
            if index not in taken and is_free(cluster):
                return _write_reservation(cluster)
    raise ClusterError(
        f"no free place for another cluster: all {MAX_CLUSTERS} are reserved in {run_folder}, or the machine uses the "
        "networks (10.200.N.0/24, 10.(96+N).0.0/16, 10.(244-N).0.0/16) or ports (5000+N)"
    )


def release(cluster: Cluster) -> None:
    shutil.rmtree(cluster.run, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock of that file; wait until it is free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _with_families(cluster: Cluster, families: Families | None) -> Cluster:
    if families is not None and families != cluster.families:
        raise ClusterError(
            f"cluster {cluster.name!r} has ipFamilies {','.join(cluster.families)}, not {','.join(families)}: remove "
            f"it with `{make_command('cluster-down', cluster.name)}`, or name another with SWERL_CLUSTER_NAME"
        )
    return cluster


def _reservations(run_folder: Path) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for record in sorted(run_folder.glob("*/owner.json")):
        try:
            found.append((int(record.parent.name), json.loads(record.read_text())))
        except ValueError:
            continue
    return found


def _write_reservation(cluster: Cluster) -> Cluster:
    shutil.rmtree(cluster.run, ignore_errors=True)
    cluster.run.mkdir(parents=True)
    cluster.run.chmod(0o711)  # the root of a user namespace must pass through to its rootfs
    owner: dict[str, Any] = {"name": cluster.name, "state": str(cluster.state), "boot": boot_id()}
    if cluster.families != SINGLE_STACK:
        owner["families"] = cluster.families
    (cluster.run / "owner.json").write_text(json.dumps(owner))
    return cluster


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
