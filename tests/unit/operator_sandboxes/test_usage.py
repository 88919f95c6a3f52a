"""CPU-seconds from samples: each sample stands for the time since the one before."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_operator.sandboxes.facts import timestamp
from swerl_operator.sandboxes.usage import Meter, window

NOW = 1_000_000.0


def sample(pod: str, at: float, *cpu: str, span: str = "15s") -> dict[str, Any]:
    containers = [{"name": f"c{i}", "usage": {"cpu": each, "memory": "1Mi"}} for i, each in enumerate(cpu)]
    meta = {"namespace": "ns", "name": pod}
    return {"metadata": meta, "timestamp": timestamp(NOW + at), "window": span, "containers": containers}


@pytest.mark.parametrize(("text", "length"), [("15.1s", 15.1), ("1m0s", 60.0), ("500ms", 0.5), ("", 0.0)])
def test_windows(text: str, length: float) -> None:
    assert window(text) == pytest.approx(length)


def test_the_first_sample_stands_for_its_window_and_the_next_for_the_time_between() -> None:
    meter = Meter()
    assert meter.read([sample("a", 0, "500m", "500m")]) == {("ns", "a"): 15.0}
    assert meter.read([sample("a", 60, "100m")]) == {("ns", "a"): pytest.approx(6.0)}
    assert meter.read([sample("a", 60, "100m")]) == {("ns", "a"): 0.0}, "a sample that is told twice counts once"


def test_pods_that_are_gone_are_forgotten() -> None:
    meter = Meter()
    meter.read([sample("a", 0, "1"), sample("b", 0, "1")])
    meter.read([sample("b", 60, "1")])
    assert set(meter.seen) == {("ns", "b")}
