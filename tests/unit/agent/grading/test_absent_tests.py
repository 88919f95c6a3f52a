"""Tests that no run prints are named, with the nearest that one did."""

from __future__ import annotations

import time

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.absent_tests import absent_tests
from swerl_agent.grading.framing import Report
from swerl_agent.grading.verdict_rules import verdict_of

from .graded import A, B, log, task


def verdict(*names: str, lines: tuple[str, ...] = (f"PASSED {A}", f"PASSED {B}")) -> Verdict:
    content = log(*lines)
    return verdict_of(task(names), Report("eval", 0, 1.0, len(content), content, (), (), b""), 0)


@pytest.mark.parametrize("name", [f"{A} ", A[:-1], A.replace("tests/", "test/"), f"{A}[x]"])
def test_most_similar_name_of_the_log_is_given(name: str) -> None:
    found = verdict(name)
    assert found.report["never_appeared"][name] in (A, B)
    assert f"FAIL_TO_PASS 0/1, PASS_TO_PASS 1/1, never appeared in the output: '{name}' (nearest: " in found.detail


def test_no_name_of_a_test_is_in_the_public_verdict() -> None:
    public = verdict(f"{A} ").public()
    assert public["report"]["never_appeared"] == 1
    assert "never appeared in the output: '<test>' (nearest: '<test>')" in public["detail"]
    assert "test_a" not in str(public)


def test_test_that_failed_or_passed_has_appeared() -> None:
    assert "never_appeared" not in verdict(A, lines=(f"FAILED {A}", f"PASSED {B}")).report
    assert "never_appeared" not in verdict(A).report


def test_log_of_other_tests_gives_no_similar_name() -> None:
    found = verdict("zzz", "yyy", "xxx")
    assert found.report["never_appeared"] == {"zzz": "", "yyy": "", "xxx": ""}
    assert found.detail.endswith("never appeared in the output: 'zzz', 'yyy' and 1 more")


def test_beginning_of_names_with_different_outcomes_has_appeared() -> None:
    lines = ("PASSED tests/t.py::test_w[no a]", "FAILED tests/t.py::test_w[no b]")
    assert absent_tests(task(("tests/t.py::test_w[n",), ()), log(*lines)) == {}


def test_large_log_takes_little_time() -> None:
    names = [f"tests/test_{n % 50}.py::test_a_rather_long_name_{n}" for n in range(5_000)]
    absent_names = tuple(f"tests/test_{n % 50}.py::test_another_rather_long_name_{n}" for n in range(1_000))
    started = time.monotonic()
    found = absent_tests(task(absent_names, ()), log(*(f"PASSED {name}" for name in names)))
    assert len(found) == 1_000 and time.monotonic() - started < 20
