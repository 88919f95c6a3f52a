"""Something that stands in the way of a job: a reason constant for machines, what and how to fix it for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One obstacle."""

    reason: str
    message: str


def joined(problems: list[Problem]) -> Problem:
    """All problems as one: the first one's reason, every message."""
    return Problem(problems[0].reason, "; ".join(problem.message for problem in problems))
