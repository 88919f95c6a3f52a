"""Removes what a cluster has made, whatever state it is in.

Guarantees: nothing outside the cluster's own cgroup, namespace, folders and names is touched; a folder is deleted only
when nothing is mounted below it any more.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from cluster import build, cgroups, network, process
from cluster.errors import ClusterError
from cluster.layout import Cluster

IMAGE_STORE = "containerd"  # folder of the state that outlives `down`
_NAMESPACE = "k8s.io"
_POD_LOGS = Path("/var/log/containers")
_SHIM_SOCKETS = Path("/run/containerd/s")


def remove_containers(cluster: Cluster) -> None:
    """Takes the dead containers out of containerd's records, so that its image store can be used again."""
    if not process.running(cluster, "containerd"):
        return
    for kind in ("containers", "sandboxes"):
        names = _ctr(cluster, kind, "list", "-q").split() if kind == "containers" else _sandboxes(cluster)
        _remove_shim_sockets(cluster, names)
        if names:
            _ctr(cluster, kind, "rm", *names)


def remove_runtime(cluster: Cluster) -> None:
    """Ends all processes of the cluster and removes its mounts, network, cgroup and log links."""
    cgroups.kill(cluster.label)
    for folder in (cluster.state, cluster.run):
        unmount_below(folder)
    network.down(cluster)
    cgroups.remove(cluster.label)
    _remove_log_links(cluster)


def remove_state(state: Path, *, keep_images: bool) -> None:
    """Deletes the state folder, but for the image store if it is kept."""
    unmount_below(state)
    if not state.exists():
        return
    for entry in state.iterdir():
        if keep_images and entry.name == IMAGE_STORE:
            continue
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    if not any(state.iterdir()):
        state.rmdir()


def mounts_below(folder: Path) -> list[str]:
    """Mount points below `folder`, the innermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    decoded = [point.encode().decode("unicode_escape") for point in points]
    return [point for point in reversed(decoded) if point.startswith(f"{folder}/")]


def unmount_below(folder: Path) -> None:
    for point in mounts_below(folder):
        subprocess.run(["umount", "-l", point], capture_output=True)
    left = mounts_below(folder)
    if left:
        raise ClusterError(f"cannot unmount {', '.join(left)}: see which process uses it (`fuser -vm`)")


def _sandboxes(cluster: Cluster) -> list[str]:
    lines = _ctr(cluster, "sandboxes", "list").splitlines()[1:]
    return [line.split()[0] for line in lines if line.strip()]


def _remove_shim_sockets(cluster: Cluster, names: list[str]) -> None:
    for name in names:
        path = f"{cluster.containerd_socket}/{_NAMESPACE}/{name}"
        (_SHIM_SOCKETS / hashlib.sha256(path.encode()).hexdigest()).unlink(missing_ok=True)


def _remove_log_links(cluster: Cluster) -> None:
    """The kubelet links every container's log from a folder that all kubelets of the machine share."""
    for link in _POD_LOGS.glob("*.log"):
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith(f"{cluster.state}{os.sep}"):
                link.unlink()


def _ctr(cluster: Cluster, *arguments: str) -> str:
    program = build.folder(cluster.home, "containerd") / "ctr"
    command = [str(program), "-a", str(cluster.containerd_socket), "-n", _NAMESPACE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
