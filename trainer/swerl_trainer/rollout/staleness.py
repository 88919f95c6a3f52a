"""The age of weights, for metrics and dispatcher alike. Pure."""

from __future__ import annotations

from collections.abc import Collection


def staleness(version: int, trained: int, unchanged: Collection[int]) -> int:
    """Changes of the weights from `version` to `trained`. A version has its step's number; steps in `unchanged` changed
    none."""
    return sum(step not in unchanged for step in range(version + 1, trained + 1))
