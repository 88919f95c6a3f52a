"""A problem that blocks a job or an evaluation: a reason constant for machines, a message with the fix for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One problem."""

    reason: str
    message: str
    blocks: bool = True
    """False: a warning; the object continues."""


def merge_problems(problems: list[Problem]) -> Problem:
    """All problems as one: the first one's reason, every message."""
    return Problem(problems[0].reason, "; ".join(problem.message for problem in problems))
