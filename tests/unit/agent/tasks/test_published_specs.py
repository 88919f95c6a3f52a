"""The table of test specs against what others publish: swebench's own scripts, rows' scripts, and SWE-Gym's facts.

`published_rows.jsonl`: recorded rows of SWE-bench Verified with their `eval_script` column, which swebench 5 reads;
the columns that no script depends on are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from swerl_agent.tasks.test_specs import CONDA, FOLDER, OFFLINE, render_eval_script, specs_by_repository

from .published_scripts import BASE, Scripts, published_scripts


def changed(path: str, old: str = "a", new: str = "b") -> str:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"


def added(path: str) -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n"
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+b\n"


DELETED = (
    "diff --git a/tests/test_gone.py b/tests/test_gone.py\ndeleted file mode 100644\n"
    "--- a/tests/test_gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
)
RENAMED = (
    "diff --git a/tests/test_old.py b/tests/test_later.py\nsimilarity index 90%\nrename from tests/test_old.py\n"
    "rename to tests/test_later.py\n--- a/tests/test_old.py\n+++ b/tests/test_later.py\n@@ -1 +1 @@\n-a\n+b\n"
)
DATA = "json png csv txt md jpg jpeg pkl yml yaml toml"  # as swebench and SWE-Gym name them; SWE-Gym adds rst and xml
A_FILE = changed("tests/pkg/test_a.py")
# Rendered alike. Django's names, files that are no Python and files of data are in each way of changing a file.
SAME = {
    "changed files": A_FILE + changed("pkg/tests/test_b.py") + changed("tests/html/page.html"),
    "a new file": A_FILE + added("tests/test_new.py") + added("tests/pkg/table.fits"),
    "a renamed file": A_FILE + RENAMED,
    "data": A_FILE + "".join(changed(f"tests/data/a.{suffix}") + added(f"tests/b.{suffix}") for suffix in DATA.split()),
    "documents": A_FILE + changed("docs/testing.rst") + added("tests/roots/index.rst"),
}
# Rendered differently on purpose: the patch, the lines that only swebench's script has, and those that only ours has.
RESET = f"git checkout {BASE}"
TWO_TARGETS = "pytest -rA tests/pkg/test_a.py {}"
DIFFERENT: Mapping[str, tuple[str, set[str], set[str]]] = {
    "a deleted file is no target: pytest would end before its first test": (
        A_FILE + DELETED,
        {TWO_TARGETS.format("tests/test_gone.py")},
        {"pytest -rA tests/pkg/test_a.py"},
    ),
    "xml is data: pytest would end before its first test": (
        A_FILE + changed("tests/data/a.xml"),
        {TWO_TARGETS.format("tests/data/a.xml")},
        {"pytest -rA tests/pkg/test_a.py"},
    ),
    "names are quoted for the shell": (
        changed("tests/test a.py"),
        {"pytest -rA tests/test a.py", f"{RESET} tests/test a.py"},
        {"pytest -rA 'tests/test a.py'", f"{RESET} 'tests/test a.py'"},
    ),
    "nothing to check out at base: without a path, git would change the commit of the work tree": (
        added("tests/test_new.py"),
        {f"{RESET} "},
        set(),
    ),
}
# Lines of swebench's scripts that change nothing for the tests.
INFORMATION = ("git status", "git show", "git -c core.fileMode=false diff ")
# What swebench tests and the table leaves out.
LEFT_OUT = {"swe-bench/humaneval": "one file per task, and no repository"}

SWE_GYM_SETUP = {
    "conan-io/conan": ["export PYTHONPATH=${PYTHONPATH:-}:$(pwd)"],
    "pydantic/pydantic": ['export PATH="$HOME/.local/bin:$PATH"'],
}
MYPY = "python -m pip install -r test-requirements.txt; python -m pip install -e .; hash -r"
CONAN = "python -m pip install" + "".join(f" -r conans/requirements{part}.txt" for part in ("", "_server", "_dev"))
# SWE-Gym: repository, versions, test command, the step that installs the work tree again.
SWE_GYM_FACTS = [
    ("python/mypy", "1.7 1.8 1.10 1.11", "pytest -rA -k", MYPY),
    ("python/mypy", "0.800 0.920 0.940 0.991 1.0 1.4 1.6", "pytest -n0 -rA -k", MYPY),
    ("getmoto/moto", "0.4 1.3 4.2 5.0", "pytest -n0 -rA", "make init"),
    ("conan-io/conan", "1.17 2.0", "pytest -n0 -rA", CONAN),
    ("dask/dask", "2.30 2024.4", "pytest -n0 -rA --color=no", "python -m pip install --no-deps -e ."),
    ("Project-MONAI/MONAI", "0.1 1.3", "pytest -rA", "python setup.py develop"),
    ("iterative/dvc", "0.1 3.49", "pytest -rA", 'python -m pip install -e ".[tests,dev,all_remotes,all,testing]"'),
    ("bokeh/bokeh", "3.0 3.4", "pytest -rA -n0", "python -m pip install -e ."),
    ("bokeh/bokeh", "0.13 1.4 2.4", "pytest -rA -n0", "python setup.py develop"),
    ("modin-project/modin", "0.1 0.30", "pytest -n0 -rA", "python -m pip install -e ."),
    ("pydantic/pydantic", "0.4 2.7", "pytest -rA --tb=short -vv -o console_output_style=classic --no-header",
     "make install"),
    ("pandas-dev/pandas", "1.5 3.0", "pytest -rA --tb=long",
     "python -m pip install -ve . --no-build-isolation -Ceditable-verbose=true"),
    ("facebookresearch/hydra", "0.1 1.4", "pytest -rA --tb=long", "python -m pip install -e ."),
    ("HypothesisWorks/hypothesis", "3.55 6.102", "pytest -n0 -rA --tb=no --no-header",
     "python -m pip install -e hypothesis-python/"),
]  # fmt: skip
ROWS = [json.loads(line) for line in (Path(__file__).parent / "published_rows.jsonl").read_text().splitlines()]
CASES = """diff --git a/test-data/unit/check-x.test b/test-data/unit/check-x.test
--- a/test-data/unit/check-x.test
+++ b/test-data/unit/check-x.test
@@ -10,4 +10,6 @@ [case testOfTheHunk]
 a
+b
+[case testAdded-only]
+x = 1
 [case testAfterTheChange]
 y
"""


def rendered(repo: str, version: str, patch: str) -> list[str]:
    row = {"repo": repo, "version": version, "base_commit": BASE, "test_patch": patch}
    return render_eval_script(row).splitlines()


def essential(script: str) -> list[str]:
    """Lines of swebench's script without information, and without what it repeats before the installation."""
    lines = [line for line in script.splitlines() if not line.startswith(INFORMATION)]
    repeated = {*CONDA, f"cd {FOLDER}"}
    return [line for number, line in enumerate(lines) if line not in repeated or line not in lines[:number]]


@pytest.fixture(scope="module")
def published() -> Scripts:
    return published_scripts(SAME | {reason: patch for reason, (patch, _, _) in DIFFERENT.items()})


def test_table_has_all_that_swebench_tests(published: Scripts) -> None:
    assert published.keys() - specs_by_repository().keys() == LEFT_OUT.keys()
    assert sum(map(len, published.values())) > 250


@pytest.mark.parametrize("name", SAME)
def test_scripts_are_swebenchs_own_in_every_version(published: Scripts, name: str) -> None:
    for repo in published.keys() - LEFT_OUT.keys():
        for version, scripts in published[repo].items():
            ours = [line for line in rendered(repo, version, SAME[name]) if line != OFFLINE]
            assert ours == essential(scripts[name]), (repo, version)


@pytest.mark.parametrize("row", ROWS, ids=[row["instance_id"] for row in ROWS])
def test_script_is_that_of_the_published_row(row: Mapping[str, str]) -> None:
    ours = [line for line in render_eval_script(row).splitlines() if line != OFFLINE]
    assert ours == essential(row["eval_script"])


@pytest.mark.parametrize("reason", DIFFERENT)
def test_differences_from_swebenchs_scripts_are_those_that_are_listed(published: Scripts, reason: str) -> None:
    patch, theirs, ours = DIFFERENT[reason]
    for repo, version in (("pydata/xarray", "2022.03"), ("pallets/flask", "3.0")):
        expected = set(essential(published[repo][version][reason]))
        lines = {line for line in rendered(repo, version, patch) if line != OFFLINE}
        assert (expected - lines, lines - expected) == (theirs, ours)


@pytest.mark.parametrize(("repo", "versions", "test", "install"), SWE_GYM_FACTS)
def test_scripts_have_the_facts_of_swe_gym(repo: str, versions: str, test: str, install: str) -> None:
    mypy = repo == "python/mypy"
    patch = CASES if mypy else A_FILE + changed("tests/data/a.rst") + changed("docs/test.xml") + changed("tests/a.csv")
    target = "'testOfTheHunk or testAdded-only or testAfterTheChange'" if mypy else "tests/pkg/test_a.py"
    for version in versions.split():
        lines = rendered(repo, version, patch)
        assert lines[:5] == ["#!/bin/bash", "set -uxo pipefail", *CONDA, f"cd {FOLDER}"]
        before_tests = lines[5 : next(n for n, line in enumerate(lines) if line.startswith(RESET))]
        safe = f"git config --global --add safe.directory {FOLDER}"
        assert before_tests == [*SWE_GYM_SETUP.get(repo, []), OFFLINE, safe, install], version
        assert (": '>>>>> Start Test Output'", f"{test} {target}") in pairwise(lines), version
        assert lines.count(next(line for line in lines if line.startswith(RESET))) == 2
