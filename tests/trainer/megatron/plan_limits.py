"""How far what ranks hold may be from what the plan says: for the test of the plan and for its benchmark."""

from __future__ import annotations

PHASES = ("load", "step", "save")
PHASE_LIMIT = 0.10  # largest relative error of the memory of a phase
PART_LIMIT = 0.01  # the same of weights, gradients and optimizer
SMALLER_STAGE_LIMIT = 0.15  # below the plan: it is of the largest stage, the last one saves no copy of the embedding


def error_limit(layout: str, rank: int, what: str, error: float) -> float:
    """The largest absolute value of relative `error` in a phase, or in a part of a step, of one rank."""
    if error < 0 and (layout, rank, what) == ("interleaved", 1, "save"):
        return SMALLER_STAGE_LIMIT
    return PHASE_LIMIT if what in PHASES else PART_LIMIT
