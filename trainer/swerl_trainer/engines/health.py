"""Decides from probes which engines are dead and which are slow.

Guarantees: pure; one late answer decides nothing; at most half of the engines are slow at a time, and an engine that
has none beside it never is; one probe without a fault clears an engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Literal

CONSECUTIVE = 2  # faults of the same kind in a row, until an engine is dead or slow
SLOW_SECONDS = 5.0  # answers within this time are never slow
SLOW_FACTOR = 5.0  # times the median of the other engines

HealthState = Literal["healthy", "slow", "dead"]


class EngineHealth:
    """What successive rounds of probes say about engines, by their number."""

    def __init__(self, *, slow_seconds: float = SLOW_SECONDS) -> None:
        self._slow_seconds = slow_seconds
        self._unanswered: Counter[int] = Counter()  # probes in a row without an answer
        self._late: Counter[int] = Counter()  # answers in a row that were late

    def assess(self, answers: Mapping[int, float | None]) -> dict[int, HealthState]:
        """The health of the engines probed; `answers`: seconds until a token, None where there was none."""
        found: dict[int, HealthState] = {}
        times = {number: seconds for number, seconds in answers.items() if seconds is not None}
        for number, seconds in answers.items():
            others = [time for other, time in times.items() if other != number]
            self._unanswered[number] = self._unanswered[number] + 1 if seconds is None else 0
            late = seconds is not None and self._is_late(seconds, others)
            self._late[number] = self._late[number] + 1 if late else 0
            found[number] = "dead" if self._unanswered[number] >= CONSECUTIVE else "healthy"
        for number in self._slowest(times, limit=len(answers) // 2):
            found[number] = "slow"
        return found

    def remove(self, number: int) -> None:
        """Start again for an engine that was replaced."""
        del self._unanswered[number], self._late[number]

    def _slowest(self, times: Mapping[int, float], limit: int) -> Iterable[int]:
        slow = [number for number in times if self._late[number] >= CONSECUTIVE]
        return sorted(slow, key=lambda number: -times[number])[:limit]

    def _is_late(self, seconds: float, others: list[float]) -> bool:
        return bool(others) and seconds > max(self._slow_seconds, SLOW_FACTOR * median(others))
