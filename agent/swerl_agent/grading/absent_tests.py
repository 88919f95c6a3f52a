"""Tests of a task that a log does not name, each with the nearest name that it has.

Rows often hold names that no run prints: cut short, with a space at the end, of another version of the parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from swerl_agent.tasks import Task

from .swebench_report import statuses

MAX_COMPARED = 3  # absent tests whose nearest name is looked for
MAX_NAMES = 2_000  # names of a log that one of them is compared with


def absent_tests(task: Task, log: bytes) -> dict[str, str]:
    """The task's tests that a whole log gives no outcome of, with the nearest name there, '' where none is near."""
    if task.ground_truth.expected_output:
        return {}
    found = statuses(task, log)
    tests = [*task.ground_truth.fail_to_pass, *task.ground_truth.pass_to_pass]
    printed = tuple(name for name in found if " (" in name)  # Django's, which others' output may stand before
    absent = [test for test in tests if test not in found and not _cut(test, found) and not test.endswith(printed)]
    nearest = {test: _nearest(test, found) for test in absent[:MAX_COMPARED]} if found else {}
    return {test: nearest.get(test, "") for test in absent}


def absent_message(absent: Mapping[str, str]) -> str:
    """What a verdict says of them, '' for none."""
    if not absent:
        return ""
    first = [f"'{test}'" + (f" (nearest: '{near}')" if near else "") for test, near in list(absent.items())[:2]]
    more = f" and {len(absent) - 2} more" if len(absent) > 2 else ""
    return f"never appeared in the output: {', '.join(first)}{more}"


def _cut(test: str, found: Iterable[str]) -> bool:
    """Whether `test` is the beginning of parametrised names, whose outcomes may differ."""
    return test.count("[") > test.count("]") and any(name.startswith(test) for name in found)


def _nearest(test: str, found: Iterable[str]) -> str:
    """The most similar name; those of the same file come first where a log has very many."""
    file = test.partition("::")[0]
    names: Sequence[str] = sorted(found, key=lambda name: not name.startswith(file))[:MAX_NAMES]
    return next(iter(get_close_matches(test, names, n=1)), "")
