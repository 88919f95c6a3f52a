"""The live view: what it shows, and how long a redraw takes."""

from __future__ import annotations

import io
import json
import time
from typing import Any

from rich.console import Console
from swerl_agent.jobs.view import JobView, sparkline

WAIT = {
    "type": "Ready",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes have cpu",
    "lastTransitionTime": "2026-05-01T11:50:00Z",
}


def reading(step: int) -> dict[str, Any]:
    status = {"phase": "Training", "observedGeneration": 1, "attempt": 1, "step": step, "steps": 9, "eta": "4m"}
    learning = WAIT | {"type": "Learning", "reason": "NoSignal", "message": "the last 3 steps changed no weight"}
    training = WAIT | {"type": "Training", "status": "True", "reason": "DriverRunning"}
    conditions = [training, learning]
    more = {"rewardMean": -1.0 + step / 4, "resolvedRate": step / 8, "conditions": conditions}
    return {"metadata": {"name": "q", "generation": 1}, "spec": {}, "status": status | more}


def groups(count: int) -> list[dict[str, Any]]:
    return [
        {"spec": {"replicas": 8}, "status": {"replicas": 8, "ready": 6, "failed": 1, "conditions": [WAIT]}}
        for _ in range(count)
    ]


def test_panel_shows_curves_sandboxes_and_warnings() -> None:
    printed, view = io.StringIO(), JobView("q")
    for step in (1, 4, 8):
        view.observe(reading(step), groups(2))
    Console(file=printed, width=120).print(view.panel())
    text = printed.getvalue()
    for expected in ("SweRLJob q", "step 8/9", "4m", "0 waiting, 2 starting, 12 ready, 2 lost", "▂▅█"):
        assert expected in text, text
    assert "the last 3 steps changed no weight" in text and "2 groups wait: 0/3 nodes have cpu" in text


def test_reading_is_one_json_object() -> None:
    view = JobView("q")
    view.observe(reading(4), groups(2))
    found = json.loads(json.dumps(view.as_json()))
    assert (found["name"], found["phase"], found["step"], found["steps"], found["eta"]) == ("q", "Training", 4, 9, "4m")
    assert (found["reward_mean"], found["resolved_rate"], found["tokens_per_second"]) == (0.0, 0.5, None)
    assert found["sandboxes"] == {"waiting": 0, "starting": 2, "ready": 12, "lost": 2}
    assert found["waiting_groups"] == [{"reason": "Unschedulable", "groups": 2, "message": "0/3 nodes have cpu"}]
    assert [cause["reason"] for cause in found["causes"]] == ["NoSignal"]


def test_reading_of_a_job_that_has_no_status_yet() -> None:
    view = JobView("q")
    view.observe({"metadata": {"name": "q", "generation": 1}, "spec": {}})
    assert (view.as_json()["phase"], view.as_json()["sandboxes"]) == ("Pending", {})
    assert view.as_json()["causes"][0]["reason"] == "NotSeenByOperator"


def test_curve_shows_the_newest_steps() -> None:
    assert sparkline([0.0] * 100 + [1.0]) == "▁" * 59 + "█"


def test_redraw_with_a_thousand_sandboxes_takes_less_than_50_ms() -> None:
    view, console = JobView("q"), Console(file=io.StringIO(), force_terminal=True, width=120)
    crowd, seconds = groups(125), list[float]()
    for step in range(1, 6):
        started = time.process_time()
        view.observe(reading(step), crowd)
        console.print(view.panel())
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.05
