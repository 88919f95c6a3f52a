"""Witness of a pytest run, loaded by pytest itself (`-p swerl_witness`) in a grading Pod, from a read-only mount.

Runs on Python 3.6 and pytest 3.6 or newer, and needs nothing else. Without `SWERL_WITNESS` in the environment it does
nothing.

Guarantees: it is in place before any code of the repository, and takes its own traces out of the environment, so that
nothing that the tests start is changed; every line it writes is numbered and signed with a key that could be read once;
it writes each test's result when pytest has it, what it saw of tampering, and the end, without which a run counts for
nothing. It changes no outcome and prints nothing.
"""

import functools
import hashlib
import hmac
import json
import os
import select
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

import pytest

KEY_WAIT = 10.0  # seconds until a session that gets no key goes on unwitnessed
MACHINERY = ("_pytest", "pytest", "pluggy", unittest.__name__)
OUTCOME_HOOKS = (
    "pytest_collection_modifyitems", "pytest_pycollect_makeitem", "pytest_pyfunc_call", "pytest_report_teststatus",
    "pytest_runtest_call", "pytest_runtest_logreport", "pytest_runtest_makereport", "pytest_runtest_protocol",
)  # fmt: skip
MEMORY_SEARCHES = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")


class Record:
    """The signed lines of one session: `<session> <number> <signature> <JSON>`."""

    def __init__(self, session: str, key: str, fd: int) -> None:
        self._session, self._fd, self._number, self._process = session, fd, 0, os.getpid()
        self._signer = hmac.new(key.encode(), digestmod=hashlib.sha256)

    def write(self, *content: Any) -> None:
        if os.getpid() != self._process:  # a forked child is not this session
            return
        text = json.dumps(content)
        signer = self._signer.copy()
        signer.update(f"{self._number} {text}".encode())
        line = f"{self._session} {self._number} {signer.hexdigest()} {text}\n".encode()
        self._number += 1
        while line:
            line = line[os.write(self._fd, line) :]


def opened_record(folder: str) -> "Record | None":
    """The record of this session, or None when all keys are handed out."""
    fd = os.open(folder + "/key", os.O_RDONLY | os.O_NONBLOCK)
    try:
        line = os.read(fd, 200).decode().split() if select.select([fd], [], [], KEY_WAIT)[0] else []
    finally:
        os.close(fd)
    return Record(line[0], line[1], os.open(folder + "/record", os.O_WRONLY)) if len(line) == 2 else None


class Facts:
    """What the wrapper knows of the run."""

    def __init__(self, folder: str) -> None:
        with open(folder + "/facts", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
        self.folder, self.began, self.tree = folder, float(lines[0]), lines[1]
        self.patched = {os.path.realpath(os.path.join(self.tree, path)) for path in lines[2:] if path}

    def blames(self, path: str) -> bool:
        """Whether `path` is a file of the patch."""
        return bool(path) and os.path.realpath(path) in self.patched

    def short(self, path: str) -> str:
        """`path` as the patch names it, or as it is outside the repository."""
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self.tree))
        return path if inside.startswith("..") else inside


def inner(value: Any) -> Any:
    """The function in a property, a static or a class method."""
    return value.fget if isinstance(value, property) else getattr(value, "__func__", value)


def code_file(value: Any) -> str:
    """The file of a callable's code, '' for what has none."""
    while isinstance(value, functools.partial):
        value = value.func
    value = inner(value)
    code = getattr(value, "__code__", None) or getattr(getattr(type(value), "__call__", None), "__code__", None)
    return str(code.co_filename) if code else ""


def machinery() -> "list[tuple[Any, str, Any, types.CodeType]]":
    """(owner, name, callable, code) of every function of pytest and what it stands on."""
    found: list[tuple[Any, str, Any, types.CodeType]] = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in MACHINERY or module is None:
            continue
        classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
        for owner in [module, *classes]:
            for attribute, value in list(vars(owner).items()):
                function = inner(value)
                if isinstance(function, types.FunctionType):
                    found.append((owner, attribute, value, function.__code__))
    return found


def replaced(before: "list[tuple[Any, str, Any, types.CodeType]]") -> "Iterator[tuple[str, str]]":
    """(name, file of what stands there now) of the machinery that is not what it was."""
    for owner, attribute, value, code in before:
        now = vars(owner).get(attribute, value)
        function = inner(value)
        if now is not value or function.__code__ is not code:
            path = code_file(now) if now is not value else function.__code__.co_filename
            yield f"{getattr(owner, '__qualname__', owner.__name__)}.{attribute}", path


def fresh_machinery(facts: Facts) -> "Iterator[str]":
    """Files of pytest outside the repository that were written since the Pod began."""
    tree = os.path.realpath(facts.tree) + os.sep
    for name in MACHINERY:
        for folder in getattr(sys.modules.get(name), "__path__", []):
            for parent, _, files in os.walk(folder):
                for path in (os.path.join(parent, file) for file in files if file.endswith(".py")):
                    if not os.path.realpath(path).startswith(tree) and os.stat(path).st_ctime > facts.began:
                        yield path


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


def failing_test_passes(item: Any) -> "bool | None":
    """Whether a test that must fail, run by the same machinery as `item`, passes; None when it cannot be told."""
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


def raised_by_patch(error: Any, facts: Facts) -> "str | None":
    """The file of the patch that raised pytest's own `xfail`, if one did."""
    from _pytest.outcomes import XFailed

    if error is None or not isinstance(error.value, XFailed):
        return None
    trace = error.tb
    while trace is not None:
        if facts.blames(trace.tb_frame.f_code.co_filename):
            return str(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return None


def watch(facts: Facts, record: Record, own: str, private: "tuple[str, str]", event: str, about: "tuple[Any]") -> None:
    """Audit hook that tells of code which looks for what belongs to grading."""
    if event == "open" and isinstance(about[0], str) and about[0].startswith(private):
        if not about[0].startswith(own):  # its source is read for tracebacks
            record.write("alarm", f"the tests' code opened {about[0]}, which belongs to grading")
    elif event in MEMORY_SEARCHES:
        path = sys._getframe(1).f_code.co_filename
        if facts.blames(path):
            record.write("alarm", f"{facts.short(path)} searches the memory of the test process")


def audit_hooks(record: Record, facts: Facts) -> "dict[str, Any]":
    """Hooks that tell what is not at the session's end as it was at its beginning."""
    before: list[tuple[Any, str, Any, types.CodeType]] = []
    known: set[int] = set()
    tests: list[tuple[str, Any, types.CodeType]] = []

    def audit(config: Any) -> None:
        for name, path in replaced(before):
            if facts.blames(path) or not os.path.exists(path or "<none>"):
                record.write("alarm", f"{facts.short(path) if path else 'something'} replaced {name}")
        for name, function in outcome_hooks(config):
            if id(function) not in known and facts.blames(code_file(function)):
                record.write("alarm", f"{facts.short(code_file(function))} registered the hook {name}")
        for name, function, code in tests:
            if function.__code__ is not code:
                record.write("alarm", f"the code of {name} was replaced")

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(early_config: Any) -> None:
        before.extend(machinery())
        known.update(id(function) for _, function in outcome_hooks(early_config))
        for path in fresh_machinery(facts):
            record.write("alarm", f"{path} was written during grading")

    def pytest_collection_finish(session: Any) -> None:
        for item in getattr(session, "items", []):  # none where pytest-xdist distributes them
            function = inner(getattr(item, "obj", None))
            if isinstance(function, types.FunctionType):
                tests.append((item.nodeid, function, function.__code__))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_sessionfinish(session: Any) -> "Iterator[None]":
        yield
        audit(session.config)
        record.write("end", int(session.exitstatus))

    return locals()


def result_hooks(record: Record, facts: Facts) -> "dict[str, Any]":
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
            record.write("result", configured[0].cwd_relative_nodeid(report.nodeid), "ERROR")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(item: Any, call: Any) -> None:
        path = raised_by_patch(call.excinfo, facts)
        if path:
            record.write("alarm", f"{facts.short(path)} marks {item.nodeid} as expected to fail")

    def pytest_runtest_logreport(report: Any) -> None:
        status = None if hasattr(report, "context") else status_of(report)  # a subtest is part of its test
        if status:
            record.write("result", configured[0].cwd_relative_nodeid(report.nodeid), status)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(session: Any) -> "Iterator[None]":
        yield
        items = [item for item in getattr(session, "items", []) if item.getparent(pytest.Module)]
        if items and failing_test_passes(items[-1]):
            record.write("alarm", "a test that must fail passed")

    return locals()


def hooks(record: Record, facts: Facts) -> "dict[str, Any]":
    """The plugin's hooks by name; what they share lives in their closures alone."""
    found = {**audit_hooks(record, facts), **result_hooks(record, facts)}
    record.write("hello", {"python": list(sys.version_info[:3]), "pytest": pytest.__version__})
    if hasattr(sys, "addaudithook"):
        own = os.path.dirname(os.path.abspath(__file__))
        private = (os.path.dirname(facts.folder) + os.sep, os.path.dirname(own) + os.sep)
        sys.addaudithook(functools.partial(watch, facts, record, own, private))
    return {name: hook for name, hook in found.items() if name.startswith("pytest_")}


def start() -> "dict[str, Any]":
    """The hooks of a witnessed session, {} in any other."""
    folder = os.environ.pop("SWERL_WITNESS", "")
    if not folder:
        return {}
    for name in ("SWERL_WITNESS_FOLDER", "SWERL_WITNESS_CODE", "TOX_TESTENV_PASSENV", "TOX_OVERRIDE"):
        os.environ.pop(name, None)
    for name in ("PYTEST_ADDOPTS", "PYTHONPATH"):
        value = os.environ.pop("SWERL_WITNESS_" + name, "")
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    record = opened_record(folder)
    return hooks(record, Facts(folder)) if record else {}


globals().update(start())
