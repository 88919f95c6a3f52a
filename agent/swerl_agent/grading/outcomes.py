"""R2E-Gym's way of grading: the outcome of every test must be the one that is known of the reference fix.

Guarantees: a patch is unresolved with an extra test, a missing test or another outcome. A log without pytest's summary
is unresolved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swerl_agent.tasks import Task

from .eval_script import END, START

SUMMARY = "short test summary info"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\r")
_LINE = re.compile(r"^(PASSED|FAILED|ERROR) (.*)$")


def outcome_map(log: str) -> dict[str, str]:
    """Outcome by test (`Class.test`, the file left out) of the last pytest summary in `log`.

    Tests that were not collected have no name but their file's, and share the key ''.
    """
    region = log[log.find(START) + 1 : log.rfind(END) if END in log else None]
    summary = _COLOUR.sub("", region).rpartition(SUMMARY)[2] if SUMMARY in region else ""
    found = (_LINE.match(line) for line in summary.split("\n"))
    return {".".join(line[2].split(" - ")[0].split("::")[1:]): line[1] for line in found if line}


def outcome_report(task: Task, log: bytes) -> dict[str, Any]:
    """A report as swebench gives one, on a task that names every test's outcome.

    Tests run on an applied patch alone, so the report says applied.
    """
    found = outcome_map(log.decode("utf-8", "replace"))
    expected = dict(task.ground_truth.expected_output)
    if not found:
        return {"patch_successfully_applied": True, "resolved": False}
    same = [test for test in expected if _as_expected(test, found, expected)]
    other = [test for test in {**expected, **found} if test not in same]
    nothing: dict[str, list[str]] = {"success": [], "failure": []}
    status = {"FAIL_TO_PASS": {"success": same, "failure": other}, "PASS_TO_PASS": nothing}
    return {"patch_successfully_applied": True, "resolved": not other, "tests_status": status}


def _as_expected(test: str, found: Mapping[str, str], expected: Mapping[str, str]) -> bool:
    return test in found and (not test or found[test] == expected[test])
