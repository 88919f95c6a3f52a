"""The record of a grading Pod's witness, checked on the trusted side.

Guarantees: a line counts only when it has the signature of its session's key and the next number; a run counts only
when it wrote its end; of several results of a test the worst counts. A resolved log whose tests the witness did
not see passing is not resolved.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# From best to worst, as far as a test that has several is concerned.
STATUSES = ("PASSED", "XFAIL", "SKIPPED", "XPASS", "FAILED", "ERROR")
# How a verbose run of unittest prints them.
UNITTEST_STATUSES = {"PASSED": "ok", "XFAIL": "expected failure", "SKIPPED": "skipped", "XPASS": "unexpected success",
         "FAILED": "FAIL", "ERROR": "ERROR"}  # fmt: skip
MAX_NAMED = 5  # tests or findings that a verdict names


@dataclass
class TestRun:
    """One run of pytest or unittest."""

    begun: bool = False
    ended: bool = False
    exited: bool = False  # by itself, as by an exception
    results: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # that unittest prints for a test
    violations: list[str] = field(default_factory=list)
    suspicions: list[str] = field(default_factory=list)  # what contrast confirms or clears
    touched: list[str] = field(default_factory=list)  # files of the tests that were written to while they ran
    changed: list[str] = field(default_factory=list)  # what was replaced in memory of the tests' modules and the runner
    replaced: list[str] = field(default_factory=list)  # functions of the standard library that tests rely on
    written: list[str] = field(default_factory=list)  # what they run that installation steps wrote


@dataclass(frozen=True)
class TestRecord:
    """All test runs of one Pod."""

    runs: tuple[TestRun, ...]
    violations: tuple[str, ...]
    suspicions: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    @property
    def log(self) -> str:
        """The results as lines of pytest's summary or of a verbose unittest, which swebench's parsers read."""
        merged: dict[str, str] = {}
        names: dict[str, str] = {}
        for run in filter(lambda each: each.ended, self.runs):
            names |= run.names
            for test, status in run.results.items():
                merged[test] = _worse_status(merged.get(test, status), status)
        return "".join(_line(names.get(test), test, status) for test, status in merged.items())


def _line(name: str | None, test: str, status: str) -> str:
    return f"{status} {test}\n" if name is None else f"{name} ... {UNITTEST_STATUSES.get(status, status)}\n"


def checked_record(text: bytes, keys: Sequence[str], *, required: str, finished: bool) -> TestRecord:
    """The checked record; `required`: the runner that must have been seen, if any; `finished`: no limit ended it."""
    runs = [TestRun() for _ in keys]
    violations = [] if _read(text, keys, runs) else ["the witness's record holds lines that it did not sign"]
    seen = [run for run in runs if run.begun]
    for run in seen:
        violations += dict.fromkeys(run.violations)
        if finished and not run.ended and not run.exited:
            violations.append("the test session was cut short before its runner's end")
    if required and finished and not seen:
        violations.append(f"{required} was run without its witness")
    suspicions = dict.fromkeys(each for run in seen for each in run.suspicions)
    touched = dict.fromkeys(path for run in seen for path in run.touched)
    changed = dict.fromkeys(what for run in seen for what in run.changed)
    replaced = dict.fromkeys(what for run in seen for what in run.replaced)
    written = dict.fromkeys(path for run in seen for path in run.written)
    names = map(tuple, (violations, suspicions, touched, changed, replaced, written))
    return TestRecord(tuple(seen), *names)


def _read(text: bytes, keys: Sequence[str], runs: Sequence[TestRun]) -> bool:
    """Fill `runs` from the record; whether every line was signed and in order."""
    numbers = [0] * len(keys)
    honest = True
    for index, number, signature, content in _lines(text):
        known = index < len(keys) and number == numbers[index] and signature == _signed(keys[index], number, content)
        honest &= known
        if known:
            numbers[index] += 1
            _add(runs[index], json.loads(content))
    return honest


def _lines(text: bytes) -> Iterator[tuple[int, int, str, str]]:
    for line in text.decode("utf-8", "replace").splitlines():
        parts = line.split(" ", 3)
        if len(parts) == 4 and parts[0].isdecimal() and parts[1].isdecimal():
            yield int(parts[0]), int(parts[1]), parts[2], parts[3]
        else:
            yield 1 << 30, 0, "", ""


def _signed(key: str, number: int, content: str) -> str:
    return hmac.new(key.encode(), f"{number} {content}".encode(), hashlib.sha256).hexdigest()


def _add(run: TestRun, content: Sequence[Any]) -> None:
    kind, *rest = content
    if kind == "hello":
        run.begun = True
    elif kind == "begin":  # a run after another one in the same process
        run.ended = False
    elif kind == "result":
        test, status, *name = rest
        run.results[test] = _worse_status(run.results.get(test, status), status)
        if name:
            run.names[test] = name[0]
    elif kind == "alarm":
        run.violations.append(str(rest[0]))
    elif kind == "suspicion":
        run.suspicions.append(str(rest[0]))
    elif kind == "touched":
        run.touched += [str(path) for path in rest[0]]
    elif kind == "changed":
        run.changed += [str(what) for what in rest[0]]
    elif kind == "replaced":
        run.replaced += [str(what) for what in rest[0]]
    elif kind == "written":
        run.written += [str(path) for path in rest[0]]
    elif kind == "end":
        run.ended = True
    elif kind == "exit":
        run.exited = True


def _worse_status(one: str, other: str) -> str:
    return max(one, other, key=lambda status: STATUSES.index(status) if status in STATUSES else len(STATUSES))


def unconfirmed(report: Mapping[str, Any], passed: Mapping[str, bool]) -> list[str]:
    """Tests that the log's report counts as passed and the witness (`passed`) does not.

    An id in brackets comes from the log alone, such as `[100%]` in two task sets.
    """
    status = report.get("tests_status") or {}
    named = [test for kind in ("FAIL_TO_PASS", "PASS_TO_PASS") for test in status.get(kind, {}).get("success", [])]
    return [test for test in named if not test.startswith("[") and not passed.get(test, False)]


def shortened(items: Sequence[str]) -> str:
    """The first few of `items`, and how many more there are."""
    more = len(items) - MAX_NAMED
    return ", ".join(items[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
