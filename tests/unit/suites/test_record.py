"""Runs of pytest are recorded, and their summary fails when too many tests were rerun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.record import RunRecord
from tests.summary import MOST_RERUNS, main

ROOT = Path(__file__).parents[3]
SAMPLE = """
import pytest

TRIES = []

def test_passes():
    import subprocess
    subprocess.run(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])

def test_passes_when_rerun():
    TRIES.append(1)
    assert len(TRIES) > 1

def test_fails():
    assert False

@pytest.mark.skip
def test_is_skipped():
    pass
"""


def record_of(tmp_path: Path) -> RunRecord:
    sample, file = tmp_path / "test_sample.py", tmp_path / "made" / "sample.json"
    sample.write_text(SAMPLE)
    plugin = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, f"--record={file}", "--reruns=1", "-n1", str(sample)]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120)
    return RunRecord.read(file)


def test_last_outcome_and_reruns_are_recorded(tmp_path: Path) -> None:
    record = record_of(tmp_path)
    assert record.outcomes == {"passed": 2, "failed": 1, "skipped": 1}
    assert sorted(test.rpartition("::")[2] for test in record.reruns) == ["test_fails", "test_passes_when_rerun"]
    assert len(record.seconds) == 4 and record.wall_seconds > 0
    most = max(record.cpu_seconds, key=lambda test: record.cpu_seconds[test])
    assert most.endswith("::test_passes") and record.cpu_seconds[most] > 0.05, "its child process counts"


def test_summary_ends_with_all_suites_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunRecord(
        9.5, {"passed": 2}, [], {"tests/a.py::slow": 7.0, "tests/a.py::quick": 0.1}, {"tests/a.py::slow": 4.2}
    ).write(tmp_path / "a.json")
    RunRecord(3.0, {"passed": 1, "skipped": 1}, ["tests/b.py::late"], {"tests/b.py::late": 2.0}).write(
        tmp_path / "b.json"
    )
    assert main(tmp_path) == 0
    *suites, last = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in suites] == [
        "a 2 passed in 10 s, 4 s of a processor",
        "b 1 passed, 1 skipped, 1 rerun in 3 s, 0 s of a processor",
    ]
    assert last == "passed 3, reruns 1, slowest: a.py::slow 7 s, b.py::late 2 s, a.py::quick 0 s"


def test_summary_counts_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunRecord(3.0, {"passed": 2, "failed": 1}, [], {"tests/a.py::late": 2.0}).write(tmp_path / "a.json")
    assert main(tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "passed 2, failed 1, reruns 0, slowest: a.py::late 2 s"


@pytest.mark.parametrize(
    ("suite", "totals", "status"), [("true", "true", 0), ("false", "true", 1), ("true", "false", 1)]
)
def test_make_test_ends_with_totals_also_after_a_failure(tmp_path: Path, suite: str, totals: str, status: int) -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ntest: ")[2].splitlines()[1]
    (tmp_path / "totals").write_text(f"#!/bin/sh\necho totals; {totals}\n")
    (tmp_path / "totals").chmod(0o755)
    (tmp_path / "Makefile").write_text(f"test:\n{recipe}\ntest-in-parallel:\n\t@{suite}\n")
    ended = subprocess.run(
        ["make", "-C", tmp_path, "test", f"PYTHON={tmp_path}/totals"], capture_output=True, text=True, check=False
    )
    assert "totals" in ended.stdout.splitlines() and bool(ended.returncode) == bool(status)


@pytest.mark.parametrize(("reruns", "status"), [(MOST_RERUNS, 0), (MOST_RERUNS + 1, 1)])
def test_too_many_reruns_fail(tmp_path: Path, reruns: int, status: int) -> None:
    RunRecord(1.0, {"passed": 9}, ["tests/a.py::late"] * reruns, {"tests/a.py::late": 1.0}).write(tmp_path / "a.json")
    assert main(tmp_path) == status


def test_missing_records_fail(tmp_path: Path) -> None:
    assert main(tmp_path) == 1
