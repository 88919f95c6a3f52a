"""What the machine spends: processor seconds of daemons and of everything, memory and sockets of a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cluster import layout, process

TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds
PAGE = os.sysconf("SC_PAGE_SIZE")  # bytes
DAEMONS = ("apiserver", "kubelet", "containerd")


@dataclass(frozen=True)
class CpuTime:
    """Processor seconds since boot (whole machine) or start (a daemon)."""

    machine: float
    daemons: dict[str, float]

    def since(self, before: CpuTime) -> CpuTime:
        return CpuTime(
            self.machine - before.machine,
            {name: seconds - before.daemons[name] for name, seconds in self.daemons.items()},
        )


def cpu_time(cluster: layout.Cluster) -> CpuTime:
    """Now; raises RuntimeError when a daemon of the cluster does not run."""
    return CpuTime(_machine(), {name: _process(_daemon(cluster, name)) for name in DAEMONS})


def memory(pid: int) -> int:
    """Resident bytes of a process and its children."""
    return sum(_resident(one) for one in [pid, *_children(pid)])


def sockets(pid: int) -> int:
    """Open sockets of a process and its children."""
    return sum(_sockets(one) for one in [pid, *_children(pid)])


def _daemon(cluster: layout.Cluster, name: str) -> int:
    found = process.running(cluster, name)
    if found is None:
        raise RuntimeError(f"{name} of cluster {cluster.name} does not run; start it with `make cluster`")
    return found.pid


def _machine() -> float:
    user, nice, system, _idle, _wait, irq, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    return TICK * (user + nice + system + irq + soft)


def _process(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return TICK * (int(fields[11]) + int(fields[12]))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _resident(pid: int) -> int:
    try:
        return PAGE * int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0


def _sockets(pid: int) -> int:
    try:
        links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return 0
    return sum(link.startswith("socket:") for link in links)
