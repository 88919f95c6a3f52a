"""Figures of a GPU machine in a file, each as soon as it is measured: the machine may go at any time."""

from __future__ import annotations

import json
import os
from pathlib import Path

FILE, STEP = "SWERL_GPU_FIGURES", "SWERL_GPU_STEP"  # variables that `tests.gpu.steps` sets


def record(figure: str, value: float | str) -> None:
    """Append a figure of the present step; no-op outside `tests.gpu.steps`."""
    if file := os.environ.get(FILE):
        append(Path(file), {"step": os.environ.get(STEP, ""), "figure": figure, "value": value})


def append(file: Path, line: dict[str, object]) -> None:
    """Add a line to `file`, on disk when this returns."""
    with file.open("a") as opened:
        opened.write(json.dumps(line) + "\n")
        opened.flush()
        os.fsync(opened.fileno())
