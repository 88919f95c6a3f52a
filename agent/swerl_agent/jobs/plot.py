"""A curve in a terminal, in Braille dots. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Points = Sequence[tuple[float, float]]
BLANK = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a character of 4 rows and 2 columns


def plot(points: Points, *, width: int = 60, height: int = 8) -> list[str]:
    """Lines of the curve with its bounds; `width` and `height` in characters. Points that share a column are averaged.

    A constant curve lies in the middle.
    """
    if not points:
        return ["(no values)"]
    values = _columns(points, 2 * width)
    low, high = min(value for value in values if value is not None), max(value for value in values if value is not None)
    cells = [[BLANK] * width for _ in range(height)]
    for column, value in enumerate(values):
        if value is not None:
            share = (value - low) / (high - low) if high > low else 0.5
            row = round((1 - share) * (4 * height - 1))
            cells[row // 4][column // 2] |= DOTS[row % 4][column % 2]
    labels = [f"{high:.4g}", *([""] * (height - 2)), f"{low:.4g}"] if height > 1 else [f"{high:.4g}"]
    margin = max(map(len, labels))
    lines = [
        f"{label:>{margin}} ┤{''.join(map(chr, row))}".rstrip(chr(BLANK))
        for label, row in zip(labels, cells, strict=True)
    ]
    first, last = f"{points[0][0]:g}", f"{points[-1][0]:g}"
    return [*lines, f"{'':>{margin}}  {first}{last:>{max(1, width - len(first))}}"]


def _columns(points: Points, count: int) -> list[float | None]:
    """Mean value by column; between two points that are far apart, columns are interpolated."""
    start, end = points[0][0], points[-1][0]
    sums: list[list[float]] = [[] for _ in range(count)]
    for at, value in points:
        place = round((at - start) / (end - start) * (count - 1)) if end > start else 0
        sums[place].append(value)
    means = [sum(column) / len(column) if column else None for column in sums]
    known = [place for place, mean in enumerate(means) if mean is not None]
    for left, right in pairwise(known):
        one, other = means[left], means[right]
        assert one is not None and other is not None
        for place in range(left + 1, right):
            means[place] = one + (other - one) * (place - left) / (right - left)
    return means
