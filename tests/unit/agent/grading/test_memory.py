"""What the witness finds replaced in memory, and what it takes for a test's own doing."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .wrapper import WRAPPER

HELPERS = """
import functools
from json import loads as read
high = 5
CALLS = []
LATER = 1
LATER = 2
def check(value):
    assert value == high
@functools.wraps(check)
def wrapped(value):
    return check(value)
def twice():
    pass
twice = functools.partial(twice)
def used():
    global STATE
    STATE = 1
STATE = 0
class Base:
    def __new__(cls, *about):
        return super().__new__(cls)
    def __init_subclass__(cls):
        pass
    def shared(self):
        pass
class TestKit(Base):
    def test_old(self):
        assert False
    @functools.lru_cache()
    def test_marked(self):
        assert False
    async def test_later(self):
        assert False
    def replaced(self):
        pass
    replaced = classmethod(replaced)
    @classmethod
    def setUpClass(cls):
        cls.state = 1
"""


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(WRAPPER.parent / "witness"))
    return importlib.import_module("swerl_memory")


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/kit_helpers.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(str(tmp_path / "tests"))
    monkeypatch.delitem(sys.modules, "kit_helpers", raising=False)
    return importlib.import_module("kit_helpers")


@pytest.fixture
def facts(memory: ModuleType, tmp_path: Path) -> Any:
    folder = tmp_path / "witness"
    folder.mkdir()
    (folder / "facts").write_text(f"0\n0\n{tmp_path}\n")
    (folder / "tests").write_text("tests/kit_helpers.py\0")
    return memory.RunFacts(str(folder))


def found(memory: ModuleType, facts: Any) -> list[str]:
    watch = memory.Watch()
    watch.begin(facts)
    return list(watch.found())


def test_module_as_its_source_has_it_is_no_finding(memory: ModuleType, helpers: ModuleType, facts: Any) -> None:
    helpers.used()
    helpers.CALLS.clear()
    assert found(memory, facts) == []


@pytest.mark.parametrize(
    ("name", "value"), [("check", len), ("check", lambda value: None), ("high", 9), ("high", True), ("read", eval)]
)
def test_what_was_replaced_before_the_tests_is_found(
    memory: ModuleType, helpers: ModuleType, facts: Any, name: str, value: object
) -> None:
    setattr(helpers, name, value)
    assert found(memory, facts) == ["tests/kit_helpers.py"]


def test_other_code_in_a_function_is_found(memory: ModuleType, helpers: ModuleType, facts: Any) -> None:
    watch = memory.Watch()
    watch.begin(facts)
    helpers.check.__code__ = (lambda value: None).__code__
    assert watch.found() == ["tests/kit_helpers.py"]


def test_state_that_a_class_of_tests_keeps_is_no_finding(memory: ModuleType, helpers: ModuleType, facts: Any) -> None:
    watch = memory.Watch()
    watch.begin(facts)
    helpers.TestKit.setUpClass()
    assert watch.found() == []


@pytest.mark.parametrize("method", ["test_old", "test_marked", "test_later", "shared"])
def test_replaced_methods_of_test_classes_are_found(
    memory: ModuleType, helpers: ModuleType, facts: Any, method: str
) -> None:
    watch = memory.Watch()
    watch.begin(facts)
    setattr(helpers.TestKit, method, lambda self: None)
    assert watch.found() == ["tests/kit_helpers.py"]


@pytest.mark.parametrize("method", ["test_old", "test_later"])
def test_method_that_was_replaced_before_the_tests_is_found(
    memory: ModuleType, helpers: ModuleType, facts: Any, method: str
) -> None:
    setattr(helpers.TestKit, method, lambda self: None)
    assert found(memory, facts) == ["tests/kit_helpers.py"]


def test_what_a_test_puts_back_is_no_finding_and_the_rest_is(
    memory: ModuleType, facts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = memory.Watch()
    with monkeypatch.context() as patched:
        patched.setattr(json, "loads", lambda text: 5)
        patched.setattr("builtins.open", lambda path: None)
    watch.look()
    assert watch.found() == watch.replaced(facts) == []
    watch = memory.Watch()
    monkeypatch.setattr(json, "loads", lambda text: 5)
    watch.look()
    monkeypatch.undo()
    assert watch.found() == []
    assert watch.replaced(facts) == []


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import json.decoder\n", True),
        ("def later():\n    from json import loads\n", True),
        ("from json import loads as read\n", True),
        ("held = __import__('json')\n", True),
        ("'not to be read again:'\n\0", True),
        ("def parsed(answer):\n    return answer.json()\n", False),
        ("from os import path as json\n", False),
    ],
)
def test_function_of_json_counts_where_code_of_tests_has_it(
    memory: ModuleType, facts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, used: bool
) -> None:
    path = tmp_path / "kit_testing.py"
    path.write_text(source.replace("\0", ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "kit_testing", raising=False)
    importlib.import_module("kit_testing")
    path.write_text(source)
    watch = memory.Watch()
    monkeypatch.setattr(json, "loads", len)
    assert watch.replaced(facts) == (["json.loads"] if used else [])
    facts.patched = {str(path)}
    assert watch.replaced(facts) == [], "a file of the patch is no code of the tests"


def test_functions_that_read_files_always_count(
    memory: ModuleType, facts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, real = memory.Watch(), open
    monkeypatch.setattr("builtins.open", lambda *about, **named: real(*about, **named))
    assert watch.replaced(facts) == ["builtins.open"]


def test_marks_of_another_make_are_found(memory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = memory.Watch()
    monkeypatch.setattr(pytest.mark, "parametrize", len, raising=False)
    assert watch.found() == ["pytest.mark.parametrize"]
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(WRAPPER.parent / "witness"))
    watch = memory.Watch()
    monkeypatch.setattr(pytest, "mark", object())
    assert watch.found() == ["pytest.mark"]


def test_state_of_code_beside_the_tests_is_no_finding(
    memory: ModuleType, facts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, helpers: ModuleType
) -> None:
    (tmp_path / "tests/kit_state.py").write_text("ready = False\n")
    monkeypatch.delitem(sys.modules, "kit_state", raising=False)
    importlib.import_module("kit_state").ready = True  # type: ignore[attr-defined]
    assert found(memory, facts) == ["tests/kit_state.py"]
    facts.tree = str(tmp_path / "tests")  # its own path then has no "test" in it
    facts.tests = ["kit_state.py"]
    assert found(memory, facts) == []


def test_module_that_cannot_be_asked_hides_no_other(
    memory: ModuleType, helpers: ModuleType, facts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = type("Odd", (), {"__file__": property(lambda self: 1 / 0)})()
    monkeypatch.setitem(sys.modules, "odd_module", odd)
    monkeypatch.setattr(helpers, "high", 9)
    assert found(memory, facts) == ["tests/kit_helpers.py"]


def test_what_the_runner_replaces_at_its_start_is_no_finding(
    memory: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, findings in ((pytest.warns, []), (len, ["pytest.raises"])):
        with monkeypatch.context() as patched:
            watch = memory.Watch()
            patched.setattr(pytest, "raises", value)
            watch.started()
            assert watch.found() == findings
