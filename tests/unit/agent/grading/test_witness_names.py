"""Names of tests in the witness's record, and of modules that it imports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .test_witness import CHECKS, checked, record_from, run
from .wrapper import git, repository

__all__ = ["checked", "repository"]


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


SHADOW = "print('of the tree:', __name__)\n"


@pytest.mark.parametrize(
    ("command", "runner"), [("-m unittest -v tests.checks", "unittest"), ("-m pytest -rA tests/checks.py", "pytest")]
)
@pytest.mark.parametrize("below", ["", "/lib"])
def test_witness_imports_nothing_of_a_work_tree_on_the_path(
    checked: Path, tmp_path: Path, below: str, command: str, runner: str
) -> None:
    """Its own needs are loaded before; only what it does not need comes from the tree."""
    folder = checked / below.lstrip("/")
    folder.mkdir(exist_ok=True)
    for name in ("hmac", "marshal", "swerl_paths", "swerl_record", "swerl_memory", "this"):
        (folder / f"{name}.py").write_text(SHADOW)
    (checked / "tests/checks.py").write_text("import this\n" + CHECKS)
    (checked / "tests/conftest.py").write_text("")
    git(checked, "add", "-A")
    git(checked, "commit", "-q", "-m", "shadows")
    report = run(checked, tmp_path / "p", f"{sys.executable} {command}", before=f"export PYTHONPATH={checked}{below}")
    record = record_from(report, runner)
    shadows = [line for line in report.log.decode().splitlines() if line.startswith("of the tree")]
    assert record.violations == () and record.runs and record.runs[0].ended, report.log.decode()
    assert set(shadows) <= {"of the tree: this"}, report.log.decode()
    assert record.log
