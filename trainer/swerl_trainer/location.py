"""The device that a process computes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Location:
    """A node of the Ray cluster and one of its accelerators; ranks are numbered in this order, so that neighbours share
    a node."""

    node: str
    device: int
