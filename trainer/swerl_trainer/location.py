"""The device that a process computes on, and the machine around it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # one per kernel, so all Pods of a node read the same


@dataclass(frozen=True, order=True)
class Location:
    """A node of the Ray cluster, which is one Pod, and one of its accelerators."""

    node: str
    device: int


@dataclass(frozen=True, order=True)
class Place:
    """A location and its machine. Ranks are numbered in this order, so that neighbours share a Pod, then a machine."""

    machine: str
    location: Location


def machine_id(path: Path = BOOT_ID) -> str:
    """The same for processes of one machine, whatever their Pods; empty where the kernel has no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
