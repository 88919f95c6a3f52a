"""What the tests' code may see of its run besides the tests: times of files, compiled modules."""

from __future__ import annotations

import base64
import gzip
import os
import py_compile
import sys
from pathlib import Path

import pytest

from .wrapper import diff_of, git, grade, repository

__all__ = ["repository"]

TARGETS = ("tests/test_a.py", "**/test_b.py", "check.py")
NEWER = "find . -name '*.py' -newer tests/conftest.py -newercm tests/conftest.py | sort; ls -a tests; stat -c %y tests"
STALE = "import a\nprint(a.answer)\n"


def overlay(path: str, text: str) -> dict[str, str]:
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    return {"SWERL_OVERLAY_000": f"{path} {packed}\n"}


def test_times_of_files_do_not_show_an_altered_run(repository: Path, tmp_path: Path) -> None:
    (repository / "tests/test_b.py").write_text("b\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "more tests")
    for path in [*repository.rglob("*.py"), repository / "tests"]:
        os.utime(path, (1_000_000_000, 1_000_000_000))
    reports = [
        grade(repository, tmp_path / f"p{number}", patch="", script=NEWER, targets=TARGETS, environment=environment)
        for number, environment in enumerate(({}, overlay("tests/test_a.py", "t2\n"), overlay("check.py", "c\n")))
    ]
    assert [report.log for report in reports] == [reports[0].log] * 3
    assert reports[0].log.startswith(b"./check.py\n./tests/test_a.py\n./tests/test_b.py\n")


def test_file_of_tests_at_the_top_is_reported(repository: Path, tmp_path: Path) -> None:
    report = grade(repository, tmp_path / "p", patch="", targets=("check.py", "tests/test_a.py"))
    assert {path: file.before for path, file in report.files.items()} == {
        "check.py": b"check\n", "tests/test_a.py": b"t\n"
    }  # fmt: skip


@pytest.mark.parametrize("tracked", [False, True])
def test_stale_compiled_modules_of_the_image_are_not_run(repository: Path, tmp_path: Path, tracked: bool) -> None:
    (repository / "a.py").write_text("answer = 'old'\n")
    (repository / "run.py").write_text(STALE)
    git(repository, "add", "-A")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # Python never compares it with its source
    compiled = Path(py_compile.compile(str(repository / "a.py"), invalidation_mode=mode, doraise=True))
    if tracked:
        git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", "a module")
    patch = diff_of(repository, {"a.py": "answer = 'new'\n"})
    assert compiled.exists()
    report = grade(repository, tmp_path / "p", patch=patch, script=f"{sys.executable} run.py")
    assert (report.log, report.notes) == (b"new\n", ())


def test_compiled_module_of_a_patch_is_not_run(repository: Path, tmp_path: Path) -> None:
    (repository / "a.py").write_text("answer = 'old'\n")
    (repository / "run.py").write_text(STALE)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "a module")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    (tmp_path / "a.py").write_text("answer = 'forged'\n")
    forged = Path(py_compile.compile(str(tmp_path / "a.py"), invalidation_mode=mode, doraise=True))
    path = f"__pycache__/{forged.name}"
    (repository / "__pycache__").mkdir()
    (repository / path).write_bytes(forged.read_bytes())
    git(repository, "add", "-f", path)
    patch = git(repository, "diff", "--cached", "--binary")
    git(repository, "reset", "-q", "--hard")
    report = grade(repository, tmp_path / "p", patch=patch, script=f"{sys.executable} run.py")
    assert (report.log, report.notes) == (b"old\n", (rf"removed\ {path}",))
