"""Eval scripts rendered from the table of test specs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from swerl_agent.tasks.test_specs import find_test_spec, render_eval_script, specs_by_repository

PATCH = """diff --git a/tests/t.py b/tests/t.py
--- a/tests/t.py
+++ b/tests/t.py
@@ -1 +1 @@
-a
+b
diff --git a/tests/new file.py b/tests/new file.py
new file mode 100644
--- /dev/null
+++ b/tests/new file.py
@@ -0,0 +1 @@
+b
diff --git a/tests/old.py b/tests/old.py
deleted file mode 100644
--- a/tests/old.py
+++ /dev/null
@@ -1 +0,0 @@
-b
diff --git a/tests/data.json b/tests/data.json
--- a/tests/data.json
+++ b/tests/data.json
@@ -1 +1 @@
-1
+2
"""
MYPY_PATCH = """diff --git a/test-data/unit/check-x.test b/test-data/unit/check-x.test
--- a/test-data/unit/check-x.test
+++ b/test-data/unit/check-x.test
@@ -10,3 +10,5 @@ [case testOfTheHunk]
 a
+b
+[case testAdded]
+x = 1
@@ -30,4 +40,4 @@ def f():
 [case testOfRemovedLine]
-y
 [case testUntouched]
 z
"""
SWE_GYM = (
    "python/mypy getmoto/moto conan-io/conan dask/dask Project-MONAI/MONAI iterative/dvc bokeh/bokeh"
    " modin-project/modin pydantic/pydantic pandas-dev/pandas facebookresearch/hydra"
)
SWE_BENCH = (
    "astropy/astropy django/django matplotlib/matplotlib mwaskom/seaborn pallets/flask psf/requests pydata/xarray"
    " pylint-dev/pylint pytest-dev/pytest scikit-learn/scikit-learn sphinx-doc/sphinx sympy/sympy"
)


def row(repo: str, version: str = "4.1", patch: str = PATCH) -> dict[str, str]:
    return {"repo": repo, "version": version, "base_commit": "a" * 40, "test_patch": patch}


def command(script: str) -> str:
    """The line between the markers."""
    lines = script.splitlines()
    return lines[lines.index(": '>>>>> Start Test Output'") + 1]


@pytest.mark.parametrize("repo", [*SWE_GYM.split(), *SWE_BENCH.split()])
def test_every_repository_of_swe_gym_and_swe_bench_has_a_spec(repo: str) -> None:
    patch = MYPY_PATCH if repo == "python/mypy" else PATCH
    assert find_test_spec(repo, "4.1").test in command(render_eval_script(row(repo, patch=patch)))


@pytest.mark.parametrize(
    ("repo", "version", "expected"),
    [
        ("astropy/astropy", "1.3", "pytest -rA -vv -o console_output_style=classic --tb=no"),
        ("astropy/astropy", "v5.3", "pytest -rA"),
        ("django/django", "1.9", "./tests/runtests.py --verbosity 2"),
        ("django/django", "1.10", "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"),
        ("python/mypy", "1.10", "pytest -rA -k"),
        ("python/mypy", "0.991", "pytest -n0 -rA -k"),
    ],
)
def test_version_decides_the_command(repo: str, version: str, expected: str) -> None:
    assert find_test_spec(repo, version).test == expected


@pytest.mark.parametrize(
    ("version", "install"),
    [("2.2", "python setup.py build; python setup.py install"), ("3.7", "python -m pip install -e .")],
)
def test_version_decides_the_install_step(version: str, install: str) -> None:
    assert install in render_eval_script(row("matplotlib/matplotlib", version)).splitlines()


def test_targets_are_the_test_files_that_exist_after_the_patch() -> None:
    assert command(render_eval_script(row("dask/dask"))) == "pytest -n0 -rA --color=no tests/t.py 'tests/new file.py'"


def test_files_at_base_are_restored_before_and_after() -> None:
    lines = render_eval_script(row("dask/dask")).splitlines()
    assert lines.count(f"git checkout {'a' * 40} tests/t.py tests/old.py tests/data.json") == 2


def test_file_is_restored_under_the_name_that_it_has_at_base() -> None:
    renamed = "diff --git a/t/a.py b/t/b.py\nsimilarity index 100%\nrename from t/a.py\nrename to t/b.py\n"
    script = render_eval_script(row("dask/dask", patch=renamed))
    assert f"git checkout {'a' * 40} t/a.py" in script.splitlines()
    assert command(script).endswith(" t/b.py")


def test_django_targets_are_modules() -> None:
    assert command(render_eval_script(row("django/django", "3.1"))).endswith("--parallel 1 t 'new file'")


def test_mypy_targets_are_the_cases_that_the_patch_shows() -> None:
    expected = "pytest -n0 -rA -k 'testOfTheHunk or testAdded or testOfRemovedLine or testUntouched'"
    assert command(render_eval_script(row("python/mypy", "1.4", MYPY_PATCH))) == expected


def test_script_is_valid_shell(tmp_path: Path) -> None:
    for repo in specs_by_repository():
        script = tmp_path / "eval.sh"
        script.write_text(render_eval_script(row(repo, patch=MYPY_PATCH if repo == "python/mypy" else PATCH)))
        checked = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
        assert checked.returncode == 0, (repo, checked.stderr)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (row("swe-rl/journal"), "no test spec of repository 'swe-rl/journal'"),
        (row("django/django", ""), "depends on the version, and the row's version is ''"),
        (row("dask/dask", patch=""), "its test patch changes nothing that `pytest -n0 -rA --color=no` runs"),
    ],
)
def test_row_without_a_spec_is_refused_by_name(columns: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        render_eval_script(columns)
