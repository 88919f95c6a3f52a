"""Grading by the outcome of every test, as R2E-Gym has it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.predictions import instance_report
from swerl_agent.grading.swebench_report import grade_log
from swerl_agent.tasks import GroundTruth, Task

LOG = """>>>>> Start Test Output
PASSED r2e_tests/test_1.py::TestTable::test_forged
=========================== short test summary info ============================
\x1b[32mPASSED\x1b[0m r2e_tests/test_1.py::\x1b[1mTestTable::test_new\x1b[0m
\x1b[31mFAILED\x1b[0m r2e_tests/test_1.py::TestTable::test_old - AssertionError: 1 - 2
ERROR r2e_tests/test_2.py - ImportError
=================== 1 failed, 1 passed, 1 error in 0.10s =======================
>>>>> End Test Output
PASSED r2e_tests/test_1.py::TestTable::test_late
"""
EXPECTED = {"TestTable.test_new": "PASSED", "TestTable.test_old": "FAILED", "": "ERROR"}


def report(expected: dict[str, str], log: str = LOG) -> dict[str, Any]:
    ground_truth = GroundTruth("", "", "", ("TestTable.test_new",), (), expected_output=tuple(expected.items()))
    return grade_log(Task("o-1", "o", "0" * 40, "", "text", "image", ground_truth), log.encode())


def resolved(expected: dict[str, str], log: str = LOG) -> bool:
    return bool(report(expected, log)["resolved"])


@pytest.mark.parametrize(("log", "status"), [(LOG, "resolved"), ("", "unresolved")])
def test_patch_whose_tests_ran_is_reported_as_applied(log: str, status: Literal["resolved", "unresolved"]) -> None:
    instance = instance_report("diff", Verdict(status, report(EXPECTED, log)))
    assert (instance["patch_successfully_applied"], instance["resolved"]) == (True, status == "resolved")


def test_expected_outcomes_are_resolved() -> None:
    assert resolved(EXPECTED)


@pytest.mark.parametrize(
    "expected",
    [
        {**EXPECTED, "TestTable.test_old": "PASSED"},
        {**EXPECTED, "TestTable.test_third": "PASSED"},
        {key: value for key, value in EXPECTED.items() if key != "TestTable.test_old"},
        {key: value for key, value in EXPECTED.items() if key},
        {**EXPECTED, "TestTable.test_forged": "PASSED"},
        {**EXPECTED, "TestTable.test_late": "PASSED"},
    ],
)
def test_unexpected_outcome_is_unresolved(expected: dict[str, str]) -> None:
    assert not resolved(expected)


@pytest.mark.parametrize("log", ["", ">>>>> Start Test Output\nPASSED r2e_tests/test_1.py::TestTable::test_new\n"])
def test_log_without_summary_is_unresolved(log: str) -> None:
    assert not resolved({"TestTable.test_new": "PASSED"}, log)
