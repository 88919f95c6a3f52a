"""Line charts as SVG without styles or scripts of their own: classes name colours, titles name points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .series import Points

WIDTH, HEIGHT = 360, 170
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 22
MOST_POINTS = 240  # of a curve
MOST_MARKS = 60


@dataclass(frozen=True)
class Curve:
    """One line of a chart, in coordinates of its SVG."""

    name: str
    path: str
    marks: Sequence[tuple[float, float, str]]  # place and what it is
    newest: str


@dataclass(frozen=True)
class Chart:
    """A chart with its axes."""

    title: str
    curves: Sequence[Curve]
    heights: Sequence[tuple[float, str]]  # of the grid
    steps: Sequence[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM


def chart(title: str, names: Sequence[str], series: Mapping[str, Points]) -> Chart | None:
    """The chart of the named metrics; None where none of them has a point."""
    shown = {name: _thinned(series[name]) for name in names if series.get(name)}
    if not shown:
        return None
    steps = [step for points in shown.values() for step, _ in points]
    values = [value for points in shown.values() for _, value in points]
    ticks = _ticks(min(values), max(values))
    low, high = min(*values, ticks[0]), max(*values, ticks[-1])
    first, last = min(steps), max(steps)

    def x(step: float) -> float:
        share = (step - first) / (last - first) if last > first else 0.5
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    curves = [_curve(name, [(x(a), y(b)) for a, b in points], points) for name, points in shown.items()]
    return Chart(
        title,
        curves,
        [(y(tick), figure(tick)) for tick in ticks],
        [(x(step), f"{step:g}") for step in sorted({first, last})],
    )


def _curve(name: str, places: Points, points: Points) -> Curve:
    path = "M" + " L".join(f"{a} {b}" for a, b in places)
    every = math.ceil(len(points) / MOST_MARKS)
    marks = [
        (*place, f"{name} at step {step:g}: {figure(value)}")
        for place, (step, value) in list(zip(places, points, strict=True))[::-1][::every]
    ]
    return Curve(name, path, marks, figure(points[-1][1]))


def _thinned(points: Points) -> Points:
    """At most about MOST_POINTS of them, the newest among them."""
    every = math.ceil(len(points) / MOST_POINTS)
    return list(points)[::-1][::every][::-1]


def _ticks(low: float, high: float) -> list[float]:
    """Three to five round numbers that span the values."""
    if not math.isfinite(high - low) or high <= low:
        return [low]
    raw = (high - low) / 3
    unit = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    size = next((unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw), raw)
    if size <= 0 or low + size == low:
        return [low, high]
    start = math.floor(low / size)
    return [round((start + i) * size, 12) for i in range(6) if (start + i - 1) * size < high]


def figure(value: float) -> str:
    """A number in few characters."""
    if value and (abs(value) >= 100_000 or abs(value) < 0.001):
        digits, _, exponent = f"{value:.2e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
