"""What an episode's page shows of its grading's record, to visitors who may see ground truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swerl_agent.trajectories.gradings import read_grading

from .blocks import Budget
from .rendering import address

SHOWN_TESTS = 100
SECTION_BYTES = 40_000  # of its texts on the page


def grading_values(folder: Path, path: str) -> dict[str, Any] | None:
    """Reason, tests and log of the episode at `path`; None where no record is kept."""
    found = read_grading(folder)
    if found is None:
        return None
    budget = Budget(SECTION_BYTES)
    return {
        "reason": budget.cut(found.reason, 4_000),
        "tests": [
            (budget.cut(test.kind, 40), budget.cut(test.name, 200), budget.cut(test.outcome, 40))
            for test in found.tests[:SHOWN_TESTS]
        ],
        "more": max(0, len(found.tests) - SHOWN_TESTS),
        "log": budget.cut(found.log, SECTION_BYTES, address("grading", path=path)),
    }
