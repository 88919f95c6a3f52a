"""Names of tests in the witness's record."""

from __future__ import annotations

import sys
from pathlib import Path

from .test_witness import record_from, run
from .wrapper import git, repository

__all__ = ["repository"]


def test_tests_are_named_as_in_the_log_where_pytest_starts_below_its_root(repository: Path, tmp_path: Path) -> None:
    (repository / "pytest.ini").write_text("[pytest]\n")
    (repository / "tests/test_a.py").write_text("def test_passes(): pass\n")
    (repository / "tests/test_broken.py").write_text("1 / 0\n")
    (repository / "tests/conftest.py").write_text("")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "tests")
    command = f"cd tests; {sys.executable} -m pytest -rA --continue-on-collection-errors test_a.py test_broken.py"
    report = run(repository, tmp_path / "p", command)
    record = record_from(report, "pytest")
    assert sorted(record.log.splitlines()) == ["ERROR test_broken.py", "PASSED test_a.py::test_passes"]
    assert b"PASSED test_a.py::test_passes" in report.log and b"INTERNALERROR" not in report.log
