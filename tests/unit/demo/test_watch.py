"""The demo's view of its job: on a terminal and elsewhere, and while the API server does not respond."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from demo.steps import StepFailed
from demo.view import JobFollower

TRAINING = {
    "phase": "Training",
    "step": 3,
    "steps": 22,
    "rewardMean": 0.25,
    "resolvedRate": 0.625,
    "tokensPerSecond": 431.2,
    "eta": "4m",
    "sandboxes": {"pending": 7, "ready": 25},
    "grading": {"pending": 5},
}


def readings(*statuses: dict[str, Any] | StepFailed) -> Callable[[], dict[str, Any]]:
    remaining = list(statuses)

    def read() -> dict[str, Any]:
        status = remaining.pop(0)
        if isinstance(status, StepFailed):
            raise status
        return {"status": status}

    return read


def watch(terminal: bool, *statuses: dict[str, Any] | StepFailed) -> tuple[JobFollower, io.StringIO]:
    printed = io.StringIO()
    console = Console(file=printed, force_terminal=terminal, width=120)
    return JobFollower(readings(*statuses), console=console, interval=0.0), printed


def test_terminal_shows_every_value() -> None:
    watched, printed = watch(True, TRAINING, TRAINING | {"phase": "Complete", "step": 22, "resolvedRate": 1.0})
    assert watched.follow(60)["phase"] == "Complete"
    for word in ("step 3/22", "+0.25", "62 %", "431", "7 pending, 25 ready", "5 patches", "4m", "elapsed", "▆"):
        assert word in printed.getvalue(), word


def test_line_is_printed_for_each_change_without_a_terminal() -> None:
    waiting = {
        "phase": "Starting",
        "conditions": [{"type": "ClusterReady", "status": "False", "message": "0 of 2 Pods"}],
    }
    watched, printed = watch(False, waiting, waiting, TRAINING, TRAINING, TRAINING | {"phase": "Complete"})
    watched.follow(60)
    starting, training, complete = printed.getvalue().splitlines()
    assert "0 of 2 Pods" in starting
    figures = "431 tokens/s  sandboxes 7/25  grading 5  ETA 4m"
    assert f"step 3/22  reward +0.25  resolved 62 %  {figures}" in training
    assert "Complete" in complete
    assert set(watched.view.phases) == {"Starting", "Training", "FirstStep", "Complete"}


def test_missing_response_is_tolerated() -> None:
    watched, printed = watch(False, TRAINING, StepFailed("connection refused"), TRAINING | {"phase": "Complete"})
    assert watched.follow(60)["phase"] == "Complete"
    assert len(printed.getvalue().splitlines()) == 2


def test_missing_response_for_too_long_is_an_error() -> None:
    watched, _ = watch(False, TRAINING, StepFailed("connection refused"))
    watched.response_timeout = -1.0
    with pytest.raises(StepFailed, match="connection refused"):
        watched.follow(60)


def test_job_over_its_time_limit_is_an_error() -> None:
    watched, _ = watch(False)
    watched.view.observe({"status": TRAINING})
    with pytest.raises(TimeoutError, match="still Training"):
        watched.follow(-1)
