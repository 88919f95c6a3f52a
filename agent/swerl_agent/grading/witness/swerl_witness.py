"""Witness of a pytest run, loaded by pytest itself (`-p swerl_witness`) in a grading Pod, from a read-only mount.

Runs on Python 3.6 and pytest 3.6 or newer, and needs nothing else. Without `SWERL_WITNESS` in the environment it does
nothing.

Guarantees: it is in place before any code of the repository; it writes each test's result when pytest has it, what it
saw of tampering, and the end, without which a run counts for nothing. It changes no outcome and prints nothing.
"""

import os
import sys

_PATH = sys.path[:]  # nothing of the repository is imported here, whatever its name
sys.path[:] = [p for p in _PATH if p not in ("", os.getcwd()) and os.path.realpath(p) != os.path.realpath(os.getcwd())]
from swerl_paths import outside_tree  # noqa: E402

sys.path[:] = outside_tree(_PATH)
import types  # noqa: E402
import unittest  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from typing import Any  # noqa: E402

import _pytest  # noqa: E402
import pytest  # noqa: E402
from swerl_memory import Watch  # noqa: E402
from swerl_record import (  # noqa: E402
    Record,
    RunFacts,
    code_file,
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

RUNNER_PACKAGES = ("_pytest", "pytest", "pluggy", unittest.__name__)
INSIDE = os.path.dirname(os.path.realpath(str(_pytest.__file__))) + os.sep
OUTCOME_HOOKS = (
    "pytest_collection_modifyitems", "pytest_pycollect_makeitem", "pytest_pyfunc_call", "pytest_report_teststatus",
    "pytest_runtest_call", "pytest_runtest_logreport", "pytest_runtest_makereport", "pytest_runtest_protocol",
)  # fmt: skip


def patched_file(path: str, facts: RunFacts) -> bool:
    """Whether `path` is a file of the patch and not of the pytest that runs here, which its own repository holds."""
    return facts.is_patched(path) and not os.path.realpath(path).startswith(INSIDE)


def outcome_hooks(config: Any) -> "Iterator[tuple[str, Any]]":
    """(hook, callable) of every implementation that can change an outcome."""
    for name in OUTCOME_HOOKS:
        for implementation in getattr(config.hook, name).get_hookimpls():
            yield name, implementation.function


def status_of(report: Any) -> "str | None":
    """The status that pytest's summary gives the test for this report, None when it says nothing."""
    expected = hasattr(report, "wasxfail")
    if report.outcome == "skipped":
        return "XFAIL" if expected else "SKIPPED"
    if report.outcome == "failed":
        return "FAILED" if report.when == "call" else "ERROR"
    if report.outcome == "passed" and report.when == "call":
        return "XPASS" if expected else "PASSED"
    return None


def name_of(report: Any, config: Any) -> str:
    """The name that pytest's summary gives a test; from 9.2 on pytest has a type of its own for it."""
    structured = getattr(report, "id", None)
    return str(config.cwd_relative_nodeid(structured if str(structured) == report.nodeid else report.nodeid))


def failing_test_passes(item: Any) -> "bool | None":
    """Whether a test that must fail, run by the same runner as `item`, passes; None when that is not known."""
    from _pytest import python, runner

    def test() -> None:
        raise AssertionError("must fail")

    module = item.getparent(python.Module)
    name = "test_" + os.urandom(4).hex()
    try:
        if hasattr(python.Function, "from_parent"):
            clone = python.Function.from_parent(module, name=name, callobj=test)
        else:
            clone = python.Function(name, parent=module, callobj=test)
        return runner.call_and_report(clone, "call", log=False).outcome == "passed"
    except Exception:
        return None


def raised_by_patch(error: Any, facts: RunFacts) -> "str | None":
    """The file of the patch that raised pytest's own `xfail`, if one did."""
    from _pytest.outcomes import XFailed

    if error is None or not isinstance(error.value, XFailed):
        return None
    trace = error.tb
    while trace is not None:
        if patched_file(trace.tb_frame.f_code.co_filename, facts):
            return str(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return None


def audit_hooks(record: Record, facts: RunFacts) -> "dict[str, Any]":
    """Hooks that report what is not at the session's end as it was at its beginning."""
    before: list[tuple[Any, str, Any, types.CodeType]] = []
    files, watch = test_files(facts), Watch()
    known: set[int] = set()
    tests: list[tuple[str, Any, types.CodeType]] = []

    def audit(config: Any) -> None:
        for each in replaced(before, facts):
            record.write("suspicion", each)
        for name, function in outcome_hooks(config):
            if id(function) not in known and patched_file(code_file(function), facts):
                record.write("suspicion", f"{facts.short(code_file(function))} registered the hook {name}")
        for name, function, code in tests:
            if function.__code__ is not code:
                record.write("suspicion", f"the code of {name} was replaced")

    def pytest_load_initial_conftests(early_config: Any) -> None:  # after pytest's own plugins that come first
        watch.started()
        before.extend(runner_functions(RUNNER_PACKAGES))
        known.update(id(function) for _, function in outcome_hooks(early_config))
        for path in rewritten_runner_files(RUNNER_PACKAGES, facts):
            record.write("alarm", f"{path} was written during grading")
        record.write("written", written_before_tests(facts))

    def pytest_collection_finish(session: Any) -> None:
        watch.begin(facts)
        for item in getattr(session, "items", []):  # none where pytest-xdist distributes them
            function = inner(getattr(item, "obj", None))
            if isinstance(function, types.FunctionType):
                tests.append((item.nodeid, function, function.__code__))

    def pytest_runtest_logfinish() -> None:
        watch.look()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_sessionfinish(session: Any) -> "Iterator[None]":
        yield
        audit(session.config)
        record.write("touched", touched(files))
        record.write("changed", watch.found())
        record.write("replaced", watch.replaced(facts))
        record.write("end", int(session.exitstatus))

    return locals()


def result_hooks(record: Record, facts: RunFacts) -> "dict[str, Any]":
    """Hooks that write down what pytest makes of each test."""
    configured: list[Any] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(config: Any) -> None:
        configured.append(config)
        plugins = getattr(config.option, "plugins", None) or []
        while __name__ in plugins:  # workers of pytest-xdist take their plugins from here
            plugins.remove(__name__)

    def pytest_collectreport(report: Any) -> None:
        if report.failed:
            record.write("result", name_of(report, configured[0]), "ERROR")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(item: Any, call: Any) -> None:
        path = raised_by_patch(call.excinfo, facts)
        if path:
            record.write("suspicion", f"{facts.short(path)} marks {item.nodeid} as expected to fail")

    def pytest_runtest_logreport(report: Any) -> None:
        status = None if hasattr(report, "context") else status_of(report)  # a subtest is part of its test
        if status:
            record.write("result", name_of(report, configured[0]), status)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(session: Any) -> "Iterator[None]":
        yield
        items = [item for item in getattr(session, "items", []) if item.getparent(pytest.Module)]
        if items and failing_test_passes(items[-1]):
            record.write("alarm", "a test that must fail passed")

    return locals()


def hooks(record: Record, facts: RunFacts) -> "dict[str, Any]":
    """The plugin's hooks by name; what they share lives in their closures alone."""
    found = {**audit_hooks(record, facts), **result_hooks(record, facts)}
    record.write("hello", {"python": list(sys.version_info[:3]), "pytest": pytest.__version__})
    for path in loaded_before(facts):
        if patched_file(path, facts):
            record.write("suspicion", facts.short(path) + " was loaded before the witness")
    listen(facts, record)
    return {name: hook for name, hook in found.items() if name.startswith("pytest_")}


def start() -> "dict[str, Any]":
    """The hooks of a witnessed session, {} in any other."""
    folder = requested_folder()
    record = opened_record(folder) if folder else None
    return hooks(record, RunFacts(folder)) if record else {}


globals().update(start())
