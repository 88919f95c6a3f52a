"""Witness of a unittest run (Django's runner among others), loaded by `sitecustomize` before any other code.

Runs on Python 3.5 or newer, and needs nothing else.

Guarantees: it records each result that the run's own result object receives, in whatever process the test ran. The name
is the one that the run prints. It also records signs of tampering and the end of the run; a record without an end does
not count. It ignores runs that tests start themselves, changes no outcome and prints nothing.
"""

import sys

from swerl_paths import outside_tree

_PATH = sys.path[:]  # nothing of the repository is imported here, whatever its name
sys.path[:] = outside_tree(_PATH)
import functools  # noqa: E402
import types  # noqa: E402
import unittest  # noqa: E402
from collections.abc import Callable, Iterator, Sequence  # noqa: E402
from typing import Any  # noqa: E402

from swerl_memory import Watch  # noqa: E402
from swerl_record import (  # noqa: E402
    Record,
    RunFacts,
    inner,
    listen,
    loaded_before,
    opened_record,
    replaced,
    requested_folder,
    rewritten_runner_files,
    runner_functions,
    test_files,
    touched,
    written_before_tests,
)

sys.path[:] = _PATH

RUNNER_PACKAGES = ("unittest",)
STATUSES = {
    "addSuccess": "PASSED",
    "addFailure": "FAILED",
    "addError": "ERROR",
    "addSkip": "SKIPPED",
    "addExpectedFailure": "XFAIL",
    "addUnexpectedSuccess": "XPASS",
}
FRAMEWORK = ("unittest", "django")
PROBED = ("SimpleTestCase", "TestCase")  # of the framework: quick to begin and to end

__unittest = True  # frames of this module are no part of a test's traceback


class Runs:
    """The runs of this process: how deep they are in each other, and the result object of the outermost."""

    watch = None  # type: Any  # a Watch, which begins after what the witness itself replaces

    def __init__(self) -> None:
        self.depth = 0
        self.result = None


def test_cases(suite: Any) -> "Iterator[Any]":
    """Every test of a suite of suites, of Django's parallel ones, too."""
    try:
        parts = iter(suite)
    except TypeError:
        yield suite
        return
    for part in parts:
        yield from test_cases(part)


def function_of(test: Any) -> Any:
    """The function of a test method, None where there is none."""
    function = inner(getattr(type(test), getattr(test, "_testMethodName", ""), None))
    return function if isinstance(function, types.FunctionType) else None


def described(result: Any, test: Any) -> str:
    """The name of a test in what a run prints before its outcome: the last line of its description."""
    try:
        text = str(result.getDescription(test))
    except Exception:
        text = str(test)
    return text.split("\n")[-1]


def defined_in(test: Any) -> str:
    """The file of a test's class, '' where it is not known; decorators of its methods may lie elsewhere."""
    return str(getattr(sys.modules.get(type(test).__module__), "__file__", None) or "")


def failing_probes(test: Any) -> "list[unittest.TestCase]":
    """Tests that must fail, each in another way, of the same framework as `test`."""
    bases = [base for base in type(test).__mro__ if base.__name__ in PROBED]
    named = [base for base in bases if base.__module__.partition(".")[0] in FRAMEWORK]

    def fails(self: Any) -> None:
        raise AssertionError("must fail")

    def fails_in_part(self: Any) -> None:
        with self.subTest(part=1):
            raise AssertionError("must fail")

    methods = {"test": fails, "test_part": fails_in_part}
    probe = type("Probe", (named[0] if named else unittest.TestCase,), methods)
    return [probe(name) for name in sorted(methods)]


def passes(probe: unittest.TestCase) -> bool:
    """Whether a test that must fail passes here."""
    result = unittest.TestResult()
    try:
        unittest.TestSuite([probe]).run(result)
    except Exception:
        return False
    return not (result.failures or result.errors or result.skipped)


def passes_elsewhere(probe: unittest.TestCase, runner: Any) -> bool:
    """Whether `runner`, Django's for parallel processes, reports a test that must fail as passed."""
    try:
        events = [event[0] for event in runner().run(unittest.TestSuite([probe])).events]
    except Exception:  # as of a failure that cannot be sent to another process
        return False
    return not {"addFailure", "addError", "addSubTest"}.intersection(events)


def audit(run: "Sequence[tuple[str, str, Any, types.CodeType]]", record: Record, facts: RunFacts) -> None:
    """Report tests that the patch made, and of those that are not at a run's end as they were at its beginning."""
    for name, file, function, code in run:
        if function.__code__ is not code:
            record.write("suspicion", "the code of " + name + " was replaced")
        elif facts.is_patched(file):
            record.write("suspicion", facts.short(file) + " defines the test " + name)


def watched_run(run: "Callable[..., Any]", runs: Runs, record: Record, facts: RunFacts) -> "Callable[..., Any]":
    """A runner's `run` that reports the beginning and end of the outermost one."""
    before, files = runner_functions(RUNNER_PACKAGES), test_files(facts)

    def outermost(self: Any, test: Any) -> Any:
        record.write("begin")
        runs.result = None
        runs.watch.begin(facts)
        cases = list(test_cases(test))
        functions = [(case.id(), defined_in(case), function_of(case)) for case in cases]
        known = [(*named, function, function.__code__) for *named, function in functions if function]
        last = cases[-1:]
        del cases  # unittest releases each test once it has run
        result = run(self, test)
        for each in replaced(before, facts):
            record.write("suspicion", each)
        audit(known, record, facts)
        remote = getattr(test, "runner_class", None)
        passed = [probe for case in last for probe in failing_probes(case) if passes(probe)]
        passed += [probe for probe in failing_probes(None) if remote and passes_elsewhere(probe, remote)]
        if passed:
            record.write("alarm", "a test that must fail passed")
        record.write("touched", touched(files))
        record.write("changed", runs.watch.found())
        record.write("replaced", runs.watch.replaced(facts))
        record.write("end")
        return result

    @functools.wraps(run)
    def watched(self: Any, test: Any) -> Any:
        runs.depth += 1
        try:
            return (outermost if runs.depth == 1 else run)(self, test)
        finally:
            runs.depth -= 1

    return watched


def remembered_result(make: "Callable[..., Any]", runs: Runs) -> "Callable[..., Any]":
    """A runner's `_makeResult` that remembers the outermost run's."""

    @functools.wraps(make)
    def remembered(self: Any) -> Any:
        result = make(self)
        if runs.depth == 1 and runs.result is None:
            runs.result = result
        return result

    return remembered


def written_outcome(report: "Callable[..., Any]", status: str, runs: Runs, record: Record) -> "Callable[..., Any]":
    """A result's `addSuccess` and the like that writes the outcome down."""

    @functools.wraps(report)
    def written(self: Any, test: Any, *about: Any, **named: Any) -> Any:
        if self is runs.result:
            record.write("result", test.id(), status, described(self, test))
            runs.watch.look()
        return report(self, test, *about, **named)

    return written


def written_subtest(report: "Callable[..., Any]", runs: Runs, record: Record) -> "Callable[..., Any]":
    """A result's `addSubTest` that writes a failure down as one of its test."""

    @functools.wraps(report)
    def written(self: Any, test: Any, subtest: Any, error: Any) -> Any:
        if self is runs.result and error is not None:
            record.write("result", test.id(), "FAILED", described(self, test))
        return report(self, test, subtest, error)

    return written


def witness(folder: str, record: Record) -> None:
    """Put the witness into unittest."""
    facts, runs, result, runner = RunFacts(folder), Runs(), unittest.TestResult, unittest.TextTestRunner
    record.write("hello", {"runner": "unittest"})
    for path in rewritten_runner_files(RUNNER_PACKAGES, facts):
        record.write("alarm", path + " was written during grading")
    for name, status in STATUSES.items():
        setattr(result, name, written_outcome(getattr(result, name), status, runs, record))
    setattr(result, "addSubTest", written_subtest(result.addSubTest, runs, record))
    setattr(runner, "_makeResult", remembered_result(runner._makeResult, runs))
    setattr(runner, "run", watched_run(runner.run, runs, record, facts))
    runs.watch = Watch()
    for path in loaded_before(facts):
        record.write("suspicion", facts.short(path) + " was loaded before the witness")
    record.write("written", written_before_tests(facts))
    listen(facts, record)


def start() -> None:
    """Become the witness of this process, if there is one to be."""
    folder = requested_folder()
    record = opened_record(folder) if folder else None
    if record:
        witness(folder, record)


start()
