"""Curves of a job: each shows metrics that the trainer writes, under its title."""

from __future__ import annotations

from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest
from swerl_agent.console.charts import figure
from swerl_agent.console.series import CURVES, read_metrics
from swerl_trainer.metrics.catalogue import families, gauge_of
from swerl_trainer.metrics.sinks import JsonlSink

from .artifacts import metrics, write_job
from .conftest import OpenConsole

STEPS = 3
EVALUATED = {"eval/resolved_rate": 0.25}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job with every metric that a curve shows, and one held-out evaluation."""
    folder = tmp_path / "folder" / "demo"
    write_job(folder, steps=STEPS, groups=0)
    JsonlSink(folder / "metrics.jsonl", attempt=1, keep={"step": STEPS}).write("evaluation", STEPS, EVALUATED)
    return folder


@pytest.mark.parametrize(("title", "names"), CURVES)
def test_metrics_of_a_curve_are_in_the_catalogue(title: str, names: Sequence[str]) -> None:
    assert [name for name in names if gauge_of(name).family not in families()] == [], title


def test_unknown_metric_is_in_no_catalogue() -> None:
    assert gauge_of("train/no_such_loss").family not in families()


@pytest.mark.parametrize(("title", "names"), CURVES)
async def test_page_draws_the_curve(open_console: OpenConsole, job: Path, title: str, names: Sequence[str]) -> None:
    page = unescape(await (await open_console()).page("/run", path="demo"))
    written = metrics(STEPS) | EVALUATED
    assert f"<strong>{title}</strong>" in page
    for name in names:
        assert f"{name} at step {STEPS}: {figure(written[name])}" in page


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("train/ppo_kl", [0.002, 0.004, 0.006]),
        ("perf/train_tokens_per_second", [1501, 1502, 1503]),
        ("rollout/weight_staleness/max", [1, 2, 3]),
    ],
)
def test_kl_throughput_and_staleness_are_read_by_step(job: Path, name: str, values: list[float]) -> None:
    assert read_metrics(job / "metrics.jsonl").series[name] == list(zip([1, 2, 3], values, strict=True))
