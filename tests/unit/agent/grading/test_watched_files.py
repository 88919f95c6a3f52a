"""Files that the witness watches while the tests run: those of the tests, wherever they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from swerl_agent.grading.eval_script import instrumented

from .test_witness import HONEST, RESTORING_CODE, record_from
from .wrapper import diff_of, git, grade, repository

__all__ = ["repository"]

TEST_PATCH = """\
diff --git a/locked/new.txt b/locked/new.txt
new file mode 100644
--- /dev/null
+++ b/locked/new.txt
@@ -0,0 +1 @@
+new
diff --git a/odd name.json b/odd name.json
new file mode 100644
--- /dev/null
+++ b/odd name.json
@@ -0,0 +1 @@
+{}
"""


def test_watched_are_targets_paths_of_the_test_patch_and_their_folders(repository: Path, tmp_path: Path) -> None:
    targets = ("check.py", "spec/new_check.py", "**/test_a.py", "**/a.py", "/r2e_tests")
    script = "tr '\\0' '\\n' < $SWERL_WITNESS_FOLDER/tests"
    report = grade(repository, tmp_path / "p", patch="", targets=targets, test_patch=TEST_PATCH, script=script)
    assert set(report.log.decode().splitlines()) == {
        "check.py", "spec/new_check.py", "tests/test_a.py", "locked/new.txt", "odd name.json",
        "locked/open.txt", "locked/x.txt",
    }  # fmt: skip


@pytest.mark.parametrize("written", ["test_top.py", "expected.txt"])
def test_file_of_the_tests_at_the_top_that_was_restored_is_reported(
    repository: Path, tmp_path: Path, written: str
) -> None:
    (repository / "test_top.py").write_text("import a\ndef test_answer():\n    assert a.answer() == 42\n")
    (repository / "expected.txt").write_text("42\n")
    (repository / "a.py").write_text(HONEST)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "a test at the top")
    patch = diff_of(repository, {"a.py": RESTORING_CODE.replace('"tests", "test_a.py"', f'"{written}"') + HONEST})
    data = "diff --git a/expected.txt b/expected.txt\n--- a/expected.txt\n+++ b/expected.txt\n@@ -1 +1 @@\n-4\n+42\n"
    command = f"{sys.executable} -m pytest -rA test_top.py"
    script = f"unset PYTHONPATH\n: '>>>>> Start Test Output'\n{command}\n: '>>>>> End Test Output'"
    report = grade(
        repository, tmp_path / "p", patch=patch, script=instrumented(script), targets=("test_top.py",), test_patch=data
    )
    assert record_from(report, "pytest").touched == (written,)
