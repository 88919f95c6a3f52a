"""Which groups of episodes a job trained, by the artifacts that it wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swerl_trainer.rollout.cursor import TaskOrder

from demo.cluster import ROOT

EPISODE = r"(?P<task>.+)__gg(?P<group>\d+)__i\d+__\d+"


def task_order(job: dict[str, Any]) -> Callable[[int], str]:
    """The task that a run without interruptions takes for its group `k` (from 0)."""
    names = sorted(path.name for path in (ROOT / "tasks" / "train" / "tasks").iterdir())
    order = TaskOrder(len(names), job["spec"]["tasks"]["shuffle"], job["spec"]["tasks"].get("seed", 0))
    return lambda k: names[order.task(k)]


def groups(artifacts: Path) -> set[tuple[int, str, str]]:
    """Number, task and step of every group whose episodes were written."""
    named = ((re.fullmatch(EPISODE, folder.name), folder.parent.name) for folder in artifacts.glob("step-*/*"))
    return {(int(episode["group"]), episode["task"], step) for episode, step in named if episode}
