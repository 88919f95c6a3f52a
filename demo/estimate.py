"""How long the demo takes on two cores, by step: from what is already built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster import build
from cluster.layout import image_listing

START_MINUTES = 0.5  # of a cluster that is built
IMAGES_MINUTES = {False: 7.0, True: 0.5}  # by whether they were built before
INSTALL_MINUTES = 0.5
STEP_MINUTES, SAMPLE_MINUTES, END_MINUTES = 0.5, 0.5, 1.0  # of the training, and of held-out samples before and after


def estimate_minutes(home: Path, *, local: bool, steps: int, samples: int) -> dict[str, float]:
    """Minutes by the demo's step; `local`: on the cluster that it builds."""
    return {
        "cluster": START_MINUTES + build.minutes(build.unbuilt(home)) if local else 0.0,
        "images": IMAGES_MINUTES[image_listing(home).is_file()],
        "operator": INSTALL_MINUTES,
        "training": steps * STEP_MINUTES + 2 * samples * SAMPLE_MINUTES + END_MINUTES,
    }


def describe(minutes: Mapping[str, float]) -> str:
    """One line: the total, then each step that takes a minute or more."""
    steps = ", ".join(f"{name} {value:.0f}" for name, value in minutes.items() if value >= 1)
    return f"about {sum(minutes.values()):.0f} min on two cores ({steps})"
