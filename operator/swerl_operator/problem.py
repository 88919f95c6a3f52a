"""A problem that blocks a job or an evaluation: a reason constant for machines, a message with the fix for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One problem."""

    reason: str
    message: str
    blocks: bool = True
    """False: a warning; the object continues."""


def blocking_problems(problems: Iterable[Problem | None]) -> list[Problem]:
    """Those that are more than a warning."""
    return [problem for problem in problems if problem is not None and problem.blocks]


def merge_problems(problems: list[Problem]) -> Problem:
    """All problems as one: the first one's reason, every message."""
    return Problem(problems[0].reason, "; ".join(problem.message for problem in problems))
