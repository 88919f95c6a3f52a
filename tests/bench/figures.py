"""One line per measured figure, `name ours peer ratio goal ok|short`, and the exit status that follows from all.

A figure with a peer is held against it (the goal is the ratio), one without against the goal itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

QUICK = os.environ.get("QUICK") == "1"


@dataclass(frozen=True)
class Figure:
    """One figure and what it must reach."""

    name: str  # without blanks, with the unit at its end
    ours: float
    goal: float
    peer: float | None = None
    at_least: bool = False  # else at most

    @property
    def measured(self) -> float:
        """The value that the goal limits: the ratio to the peer, or our own figure."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def meets_goal(self) -> bool:
        return self.measured >= self.goal if self.at_least else self.measured <= self.goal

    def __str__(self) -> str:
        peer, ratio = ("-", "-") if self.peer is None else (f"{self.peer:.4g}", f"{self.measured:.3f}")
        goal = f"{'>=' if self.at_least else '<='}{self.goal:g}"
        return f"{self.name} {self.ours:.4g} {peer} {ratio} {goal} {'ok' if self.meets_goal else 'short'}"


def conclude(figures: Sequence[Figure], record: Path | None = None) -> int:
    """Print the figures (and keep them in `record`); 0 only if all hold."""
    print(*figures, sep="\n", flush=True)
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(
            json.dumps([asdict(figure) | {"meets_goal": figure.meets_goal} for figure in figures], indent=1) + "\n"
        )
    return 0 if all(figure.meets_goal for figure in figures) else 1
