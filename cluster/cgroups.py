"""The control groups of one cluster, on version 1, hybrid and version 2 machines.

Guarantees: every process that a cluster starts, containers included, is below its group in the tracking hierarchy, so
`kill` ends them all without knowing their names. Under load, daemons and Pods get equal shares of the processor, as on
a node with systemd. Neither competes as a single thread with the machine's other processes.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from cluster.errors import ClusterError

ROOT = Path("/sys/fs/cgroup")
_DAEMONS = "daemons"
_CPU_SHARES = 1024  # of version 1, for each processor: of the Pods as the kubelet sets it, of the daemons, of a thread
_V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")


def is_v2() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """Mount points of all hierarchies."""
    if is_v2():
        return [ROOT]
    return sorted(path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink() and os.path.ismount(path))


def create(name: str) -> None:
    """Makes the group in every hierarchy, ready to be a kubelet's `cgroupRoot`."""
    try:
        _create(name)
    except OSError as error:
        raise ClusterError(
            f"cgroup {name} cannot be made: {error}; it needs the machine's own cgroup tree, writable (a privileged "
            "container needs the host's cgroup namespace)"
        ) from error


def _create(name: str) -> None:
    for root in hierarchies():
        group = root / name
        group.mkdir(exist_ok=True)
        if root.name.startswith("cpuset"):
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((root / setting).read_text())
    if is_v2():
        for group in (ROOT, ROOT / name):
            for controller in _V2_CONTROLLERS:
                if controller in (group / "cgroup.controllers").read_text().split():
                    (group / "cgroup.subtree_control").write_text(f"+{controller}")
    for file in daemons_files(name):
        file.parent.mkdir(exist_ok=True)
    processors = os.cpu_count() or 1
    for root in _cpu_hierarchies():
        (root / name / "cpu.shares").write_text(str(4 * _CPU_SHARES * processors))
        (root / name / _DAEMONS / "cpu.shares").write_text(str(_CPU_SHARES * processors))


def daemons_files(name: str) -> list[Path]:
    """Where a starting daemon writes its pid to join the cluster's groups."""
    return [root / name / _DAEMONS / "cgroup.procs" for root in {_pid_hierarchy(), *_cpu_hierarchies()}]


def processes(name: str) -> list[int]:
    """Pids below the group, daemons and containers."""
    return _pids(_pid_hierarchy() / name)


def container_processes(name: str) -> list[int]:
    return _pids(_pid_hierarchy() / name / "kubepods")


def kill(name: str, *, only_containers: bool = False, timeout: float = 20.0) -> None:
    """SIGKILL to all processes below the group until none is left; raises ClusterError after `timeout` seconds."""
    listing = container_processes if only_containers else processes
    deadline = time.monotonic() + timeout
    while pids := listing(name):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {pids} of cgroup {name} survive SIGKILL; look at /proc/<pid>/stack")
        time.sleep(0.05)


def remove(name: str) -> None:
    """Removes the group everywhere; it must hold no process."""
    for root in hierarchies():
        for folder, _, _ in os.walk(root / name, topdown=False):
            _remove_folder(Path(folder))


def _cpu_hierarchies() -> list[Path]:
    """The hierarchies of version 1 that share the processor out; version 2 does so by default as it should."""
    return [root for root in hierarchies() if (root / "cpu.shares").exists()]


def _pid_hierarchy() -> Path:
    if is_v2():
        return ROOT
    for name in ("pids", "memory", "systemd"):
        if (ROOT / name / "cgroup.procs").exists():
            return ROOT / name
    raise ClusterError(f"no usable cgroup hierarchy under {ROOT}: mount cgroup2 or the pids controller there")


def _pids(group: Path) -> list[int]:
    found: list[int] = []
    for folder, _, _ in os.walk(group):
        with contextlib.suppress(OSError):
            found += [int(line) for line in (Path(folder) / "cgroup.procs").read_text().split()]
    return [pid for pid in found if pid > 0]


def _remove_folder(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)  # the kernel releases a group shortly after its last process
    raise ClusterError(f"cannot remove cgroup {folder}: it still holds processes")
