"""`pytest --record FILE`: outcome, duration and processor time of every test, as JSON, for tests/summary.py.

Guarantees: one file per run, written when the run ends, also when tests failed. A test that was rerun counts once; its
seconds are those of all its runs. Processor time is that of pytest and of child processes that ended meanwhile; Pods
are not in it.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

CPU_SECONDS = "cpu_seconds"  # the property of a report


def processor_seconds() -> float:
    """Processor time of this process and of the children it waited for."""
    return sum(os.times()[:4])


@dataclass
class RunRecord:
    """One run of pytest. `outcomes` counts tests by last outcome; `reruns` names a test once per rerun."""

    wall_seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    reruns: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, file: Path) -> RunRecord:
        return cls(**json.loads(file.read_text()))


class Meter:
    """Notes in each report the processor time since the report before, in the process that runs the tests."""

    def __init__(self) -> None:
        self._before = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = processor_seconds()
        report.user_properties.append((CPU_SECONDS, now - self._before))
        self._before = now
        return report


class Recorder:
    """Collects reports in the process that runs the tests, or distributes them among xdist's workers."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._record = RunRecord()
        self._started = time.monotonic()
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid
        self._record.seconds[test] = self._record.seconds.get(test, 0.0) + report.duration
        cpu = dict(report.user_properties).get(CPU_SECONDS, 0.0)
        self._record.cpu_seconds[test] = self._record.cpu_seconds.get(test, 0.0) + float(cpu)  # type: ignore[arg-type]
        if report.outcome == "rerun":  # type: ignore[comparison-overlap]  # set by pytest-rerunfailures
            self._record.reruns.append(test)
        elif report.when == "call" or report.outcome != "passed":
            self._outcomes[test] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self._record.wall_seconds = time.monotonic() - self._started
        self._record.outcomes = dict(Counter(self._outcomes.values()))
        self._record.write(self._file)


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, metavar="FILE", help="write outcomes and times to this JSON file")


def register(config: pytest.Config) -> None:
    """Record this run where `--record` names a file; xdist's workers only meter what the process that started them
    records."""
    file: Path | None = config.getoption("--record")
    if file is None:
        return
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(file))
