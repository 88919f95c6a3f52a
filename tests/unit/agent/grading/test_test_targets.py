"""Where a task's tests are, by their ids."""

from __future__ import annotations

import pytest
from swerl_agent.grading.alterations import Names, TestSource
from swerl_agent.grading.policy import protected_globs
from swerl_agent.grading.test_targets import file_patterns, located

from .graded import task

TEXT = (
    "def test_a(): pass\nclass TestC:\n    def test_m(self): pass\n    class TestD:\n        def test_n(self): pass\n"
)
SOURCES = {"tests/pkg/test_x.py": TestSource(TEXT), "tests/pkg/test_y.py": TestSource("def test_b(): pass\n")}
NEW = Names("TestNew", "test_new")


@pytest.mark.parametrize(
    ("test", "path", "renamed"),
    [
        ("tests/pkg/test_x.py::test_a", "tests/pkg/test_x.py", "tests/pkg/test_x.py::TestNew::test_new"),
        ("pkg/test_x.py::TestC::test_m[a::b c]", "tests/pkg/test_x.py", "pkg/test_x.py::TestNew::test_new[a::b c]"),
        ("tests/pkg/test_x.py::TestC::TestD::test_n", "tests/pkg/test_x.py", "tests/pkg/test_x.py::TestNew::test_new"),
        ("test_m (pkg.test_x.TestC)", "tests/pkg/test_x.py", "test_new (pkg.test_x.TestNew)"),
        ("test_m (pkg.test_x.TestC.test_m)", "tests/pkg/test_x.py", "test_new (pkg.test_x.TestNew.test_new)"),
        ("TestC.test_m[1]", "tests/pkg/test_x.py", "TestNew.test_new[1]"),
        ("test_b", "tests/pkg/test_y.py", "TestNew.test_new"),
        ("A description of a test", None, ""),
        ("tests/pkg/test_x.py::test_gone", None, ""),
    ],
)
def test_test_is_found_and_renamed(test: str, path: str | None, renamed: str) -> None:
    found = located([test], SOURCES, {})
    assert [each.path for each in found] == ([path] if path else [])
    assert not found or found[0].renamed(NEW) == renamed


def test_name_that_two_files_have_means_neither() -> None:
    assert located(["test_a"], {**SOURCES, "other.py": TestSource("def test_a(): pass\n")}, {}) == []


def test_files_are_looked_for_by_ids_of_every_form() -> None:
    tests = ("a/test_x.py::t", "test_m (pkg.test_y.C)", "docs/x.rst::x.rst")
    patterns = file_patterns(task(tests).ground_truth, ["/r2e_tests"])
    assert {"a/test_x.py", "**/a/test_x.py", "**/pkg/test_y.py", "docs/x.rst", "/r2e_tests"} <= set(patterns)


def test_files_that_ids_of_tests_name_are_protected_but_not_those_of_doctests() -> None:
    tests = ("checks/calc.py::test_a[x/y.py::z]", "checks/more.py::Case::test_b", "docs/calc.py::docs.calc.double")
    globs = protected_globs(task(fail_to_pass=tests[:1], pass_to_pass=tests[1:]).ground_truth, [])
    assert {"checks/calc.py", "*/checks/calc.py", "checks/more.py"} <= set(globs)
    assert not any("docs" in glob for glob in globs)
