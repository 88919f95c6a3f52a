"""How far what ranks hold may be from what the plan says: for the test of the plan and for its benchmark."""

from __future__ import annotations

PARTS = ("weights", "gradients", "optimizer")  # of a step
PHASE_LIMIT = 0.10  # largest relative error of the memory of a phase
PART_LIMIT = 0.01  # the same of weights, gradients and optimizer
# Below the plan, in a save: it is of the largest stage, and the last one saves no copy of the embedding; the copies are
# written before a longer step has its peak.
SMALLER_STAGE_LIMIT = 0.15
SMALL_RANK_LIMIT = 0.20  # above the plan: some 50 MB of a process at work, part of the plan's CPU_PROCESS, show in it


def error_limit(layout: str, rank: int, what: str, error: float) -> float:
    """The largest absolute value of relative `error` in a phase, or in a part of a step, of one rank."""
    if error < 0 and what == "save" and ((layout, rank) == ("interleaved", 1) or layout == "recomputed"):
        return SMALLER_STAGE_LIMIT
    if error > 0 and layout in ("tensor", "adapters") and what in ("step", "update", "switch"):
        return SMALL_RANK_LIMIT
    return PART_LIMIT if what in PARTS else PHASE_LIMIT
