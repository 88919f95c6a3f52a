"""The sandboxes of a job by node and state, from the file that its driver writes.

Guarantees: any content gives a bounded table or none; states that are not known are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerl_agent.sandbox.by_node import MOST_NODES, STATES
from swerl_agent.trajectories.fields import integer, mapping, number, read_object

LARGEST_FILE = 256 << 10  # bytes
FRESH_SECONDS = 60.0  # a driver writes every five seconds
NO_NODE = "no node yet"


@dataclass(frozen=True)
class NodeRow:
    """A row of the table; `name` describes it unless it `is_node`."""

    name: str
    counts: tuple[int, ...]  # in the order of STATES
    is_node: bool = True


@dataclass(frozen=True)
class SandboxTable:
    """What the driver wrote at `time`, in seconds since 1970."""

    time: float
    age: float  # seconds
    rows: tuple[NodeRow, ...]
    states: tuple[str, ...] = STATES

    @property
    def fresh(self) -> bool:
        """Whether the driver still writes; clocks may differ a little."""
        return abs(self.age) <= FRESH_SECONDS

    @property
    def totals(self) -> tuple[int, ...]:
        """Sandboxes on all nodes, in the order of the states."""
        return tuple(sum(row.counts[place] for row in self.rows) for place in range(len(STATES)))


def read_sandboxes(path: Path) -> SandboxTable | None:
    """The table; None where the file is missing or is none of a driver."""
    content = read_object(path, largest=LARGEST_FILE)
    written = number(content.get("time"))
    if written is None:
        return None
    return SandboxTable(written, time.time() - written, tuple(_rows(content)))


def _rows(content: Mapping[str, Any]) -> Iterator[NodeRow]:
    for node, counts in list(mapping(content.get("by_node")).items())[:MOST_NODES]:
        yield NodeRow(node, _counts(counts))
    others = integer(content.get("other_nodes")) or 0
    for name, key in ((f"{others:,} other nodes", "on_other_nodes"), (NO_NODE, "without_node")):
        if any(counts := _counts(content.get(key))):
            yield NodeRow(name, counts, is_node=False)


def _counts(value: Any) -> tuple[int, ...]:
    counts = mapping(value)
    return tuple(max(0, integer(counts.get(state)) or 0) for state in STATES)
