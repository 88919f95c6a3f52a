"""Votes from the judge's answers, and the score of several votes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from statistics import fmean
from typing import Literal

Aggregation = Literal["mean", "majority"]

_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")  # braces nested once
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


def parse_vote(text: str) -> int | None:
    """1 or -1 of the last `\\boxed{...}` in `text`; None when there is none or it holds anything else.

    The last one counts, because the reasoning before it may quote others.
    """
    boxes = _BOXED.findall(text)
    content = boxes[-1].strip() if boxes else ""
    if not _NUMBER.fullmatch(content) or abs(float(content)) != 1.0:
        return None
    return int(float(content))


def aggregate(votes: Iterable[int | None], method: Aggregation = "mean") -> float | None:
    """The score of a step from its valid votes, -1 to 1; None without any. A tied majority is 0."""
    valid = [vote for vote in votes if vote is not None]
    if not valid:
        return None
    if method == "mean":
        return fmean(valid)
    count = Counter(valid)
    return 0.0 if count[1] == count[-1] else (1.0 if count[1] > count[-1] else -1.0)
