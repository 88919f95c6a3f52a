"""Where the figures of a step go."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from swerl_trainer.events import event_reason
from swerl_trainer.metrics.driver_metrics import DriverMetrics
from swerl_trainer.metrics.sinks import JsonlSink, PrometheusSink, Sinks, TensorBoardSink, rows

from tests.full_disk import files_end_at
from tests.ports import free_port


def test_resumed_run_has_one_row_per_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = JsonlSink(path, attempt=1, keep={})
    for step in (1, 2, 3):
        first.write("step", step, {"x": 1.0})
    with path.open("a") as sink:
        sink.write('{"kind": "step", "st')
    second = JsonlSink(path, attempt=2, keep={"step": 2})
    second.write("step", 3, {"x": 2.0})
    assert [(row["step"], row["attempt"], row["x"]) for row in rows(path)] == [(1, 1, 1.0), (2, 1, 1.0), (3, 2, 2.0)]


def test_row_that_a_full_disk_refuses_is_written_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    sink = JsonlSink(path, attempt=1, keep={})
    sink.write("step", 1, {"x": 1.0})
    with files_end_at(path.stat().st_size + 5), pytest.raises(OSError, match="File too large"):
        sink.write("step", 2, {"x": 2.0})
    assert [row["step"] for row in rows(path)] == [1]
    sink.write("step", 3, {"x": 3.0})
    assert [(row["step"], row["x"]) for row in rows(path)] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_run_from_the_beginning_starts_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    JsonlSink(path, attempt=1, keep={}).write("evaluation", 0, {"x": 1.0})
    JsonlSink(path, attempt=2, keep={})
    assert list(rows(path)) == []


@pytest.fixture
def prometheus() -> Iterator[PrometheusSink]:
    sink = PrometheusSink(DriverMetrics("demo", {"trainer": 8.0}), free_port())
    yield sink
    sink.close()


def scraped(sink: PrometheusSink, host: str = "127.0.0.1") -> str:
    answer: str = urllib.request.urlopen(f"http://{host}:{sink.port}/metrics", timeout=10).read().decode()
    return answer


def test_prometheus_is_reached_by_both_families(prometheus: PrometheusSink) -> None:
    prometheus.write("step", 4, {"train/loss": 1.0})
    for host in ("127.0.0.1", "[::1]"):
        assert 'swerl_step{swerljob="demo"} 4.0' in scraped(prometheus, host)


def test_prometheus_answers_with_the_newest_metrics(prometheus: PrometheusSink) -> None:
    prometheus.write("supervised", 2, {"train/loss": 3.0})
    prometheus.write("step", 4, {"rollout/raw_reward": 0.5, "train/loss": 1.0})
    prometheus.write("evaluation", 4, {"eval/resolved_rate": 0.25})
    text = scraped(prometheus)
    assert 'swerl_rollout_raw_reward{swerljob="demo"} 0.5' in text
    assert 'swerl_step{swerljob="demo"} 4.0' in text
    assert 'swerl_train_loss{swerljob="demo"} 1.0' in text and "3.0" not in text
    assert 'swerl_eval_resolved_rate{swerljob="demo"} 0.25' in text
    assert 'swerl_driver_gpu_seconds_total{role="trainer",swerljob="demo"}' in text


def test_values_in_names_are_labels_of_the_newest_step_only(prometheus: PrometheusSink) -> None:
    prometheus.write("step", 1, {"agent/exit_status/submitted": 3.0, "agent/exit_status/max_steps": 1.0})
    prometheus.write("step", 2, {"agent/exit_status/submitted": 4.0})
    text = scraped(prometheus)
    assert 'swerl_agent_exit_status{status="submitted",swerljob="demo"} 4.0' in text
    assert "max_steps" not in text, "no episode of the newest step ended so"


def test_step_and_supervised_step_set_the_time_of_progress() -> None:
    driver = DriverMetrics("demo", {})
    labels = {"swerljob": "demo"}

    def last_step() -> float:
        return driver.registry.get_sample_value("swerl_driver_last_step_timestamp_seconds", labels) or 0.0

    started = last_step()
    sink = PrometheusSink(driver, free_port())
    sink.write("evaluation", 1, {})
    assert last_step() == started
    sink.write("step", 1, {})
    assert last_step() > started
    sink.close()


def test_tensorboard_writes_events(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path, first_step=1)
    sink.write("step", 1, {"a/b": 1.0})
    sink.close()
    assert list(tmp_path.glob("events.*"))


async def test_sink_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    class Broken:
        def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
            raise OSError("disk full")

        def close(self) -> None:
            raise OSError("disk full")

    path = tmp_path / "metrics.jsonl"
    sinks = Sinks([Broken(), JsonlSink(path, attempt=1, keep={})])
    await sinks.write("step", 1, {})
    sinks.close()
    assert len(list(rows(path))) == 1


async def test_slow_sink_delays_its_caller_alone(tmp_path: Path) -> None:
    class Slow:
        released = threading.Event()

        def write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
            assert self.released.wait(30)

        def close(self) -> None: ...

    path = tmp_path / "metrics.jsonl"
    sinks = Sinks([Slow(), JsonlSink(path, attempt=1, keep={})])
    writing = [asyncio.create_task(sinks.write("step", step, {})) for step in (1, 2)]
    _, pending = await asyncio.wait(writing, timeout=0.1)
    assert len(pending) == 2, "the event loop goes on"
    Slow.released.set()
    await asyncio.gather(*writing)
    assert [row["step"] for row in rows(path)] == [1, 2]


async def test_row_that_is_not_written_is_an_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sinks = Sinks([JsonlSink(tmp_path / "metrics.jsonl", attempt=1, keep={})])
    with files_end_at(0):
        await sinks.write("step", 1, {})
    assert [event_reason(record) for record in caplog.records] == ["MetricsNotWritten"]
    sinks.close()
    assert len(list(rows(tmp_path / "metrics.jsonl"))) == 1
