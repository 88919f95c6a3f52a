"""Altered test files: what must fail fails, what must pass passes, and nothing else changes."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from swerl_agent.grading.alterations import (
    ENDS,
    CopyPlace,
    Edit,
    Names,
    TestSource,
    append_failing_statement,
    copied_test,
    copy_names,
    edited,
    failing,
)
from swerl_agent.grading.checked_values import checked_values
from swerl_agent.grading.replaced_values import replaced
from swerl_agent.tasks.diffs import with_new_content

SOURCE = '''import asyncio, unittest, pytest
def helper(): return 5
def test_plain():
    assert helper() == 5
@pytest.mark.parametrize("x", [1, 2])
def test_cases(x):
    if x > 1:
        return
    assert helper() != x
def test_on_one_line(): assert helper() == 5
class TestCase(unittest.TestCase):
    def setUp(self):
        super(TestCase, self).setUp()
        self.value = 5

    def test_method(self):
        """A description."""
        self.assertEqual(helper(), 5)
        self.assertEqual(helper(), self.value)
        with self.subTest(x=1):
            helper()

    def test_last(self):
        self.assertEqual({"a": [1.5, b"x"]}, {"a": [1.5, b"x"]})
        for _ in [1]:
            pass
class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_waits(self):
        await asyncio.sleep(0)
        self.assertTrue(helper() == 5 and [helper(), "é"] == [5, "é"])  # a comment

class TestNested:
    class TestInner:
        def test_inner(self):
            assert (helper(), "ä") == (5, "ä")
if True:
    def test_conditional():
        x = helper()
        if x:
            assert x == 5'''
CHANCE = random.Random(7)


def outcomes(folder: Path, text: str) -> dict[str, str]:
    (folder / "test_altered.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-rA", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "test_altered.py"], cwd=folder, capture_output=True, text=True)
    lines = [line.split(" - ")[0].split(" ", 1) for line in done.stdout.splitlines() if "::" in line]
    return {name.removeprefix("test_altered.py::"): status for status, name in lines if "SUBFAIL" not in status}


def all_tests(source: TestSource) -> list[Names]:
    return [names for names in source.functions if names.function.startswith("test")]


@pytest.mark.parametrize("form", ENDS)
def test_every_test_with_a_failing_end_fails(tmp_path: Path, form: str) -> None:
    source = TestSource(SOURCE)
    edits: list[Edit] = []
    for names in all_tests(source):
        _, node = source.functions[names]
        edits += append_failing_statement(source, node, failing(form, node, CHANCE))
    found = outcomes(tmp_path, edited(SOURCE, edits))
    assert set(found.values()) == {"FAILED"}
    assert len(found) == len(outcomes(tmp_path, SOURCE)) == 9


@pytest.mark.parametrize("copy_place", ["beside", "class", "file"])
def test_renamed_copies_pass_and_copies_with_another_value_fail(tmp_path: Path, copy_place: CopyPlace) -> None:
    source = TestSource(SOURCE)
    edits, passing, failing_ones = [], [], []
    for names in all_tests(source):
        for value in [None, *checked_values(source, source.functions[names][1])]:
            inner = replaced(source, source.functions[names][1], value, CHANCE) if value else None
            (new,) = copy_names(names, copy_place, CHANCE)
            copy_source = copied_test(source, names, new, copy_place, [inner] if inner else [])
            if copy_source:
                edits.append(copy_source)
                (failing_ones if value else passing).append(
                    "::".join([*filter(None, new.owner.split(".")), new.function])
                )
    found = outcomes(tmp_path, edited(SOURCE, edits))
    assert passing and failing_ones
    assert {found.get(name, found.get(f"{name}[1]")) for name in passing} == {"PASSED"}
    assert {found[name] for name in failing_ones} == {"FAILED"}


@pytest.mark.parametrize(
    "function", ["test_clamp", "testClamp", "testclamp", "test_0", "test_zz", "test1", "should_do"]
)
@pytest.mark.parametrize("owner", ["", "TestCalc", "CalcTest", "WidgetTests"])
@pytest.mark.parametrize("before", [True, False])
def test_names_of_copies_sort_before_or_after_the_test(function: str, owner: str, before: bool) -> None:
    places: list[CopyPlace] = ["beside", "class"]
    for place in places:
        found = copy_names(Names(owner, function), place, CHANCE, before=before, count=3)
        assert found == sorted(found, key=lambda each: (each.owner, each.function)) and len(set(found)) == 3
        for new in found:
            assert (new.function < function) == before
            assert owner in new.owner if place == "beside" or not owner else (new.owner < owner) == before


def test_copies_run_before_the_test_or_after_it(tmp_path: Path) -> None:
    source = TestSource(SOURCE)
    for names in all_tests(source):
        new = [copy_names(names, "beside", CHANCE, before=before)[0] for before in (True, False)]
        copies = [copied_test(source, names, each, "beside", before=each == new[0]) for each in new]
        (tmp_path / "test_altered.py").write_text(edited(SOURCE, filter(None, copies)))
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "test_altered.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        lines = [line.rpartition("::")[2].partition("[")[0] for line in done.stdout.splitlines()]
        order = [new[0].function, names.function, new[1].function]
        assert list(dict.fromkeys(each for each in lines if each in order)) == order


def test_text_that_is_no_python_3_or_has_odd_line_ends_is_refused() -> None:
    for text in ("print 'x'\n", "x = 1\r\n", "a = '\x0c'\n"):
        with pytest.raises((SyntaxError, ValueError)):
            TestSource(text)


def test_test_patch_is_made_to_hold_other_content(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    before, after = "one\ntwo\n", "one\n2\nthree"
    (tmp_path / "a.py").write_text(before)
    (tmp_path / "b.py").write_text("b\n")
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    (tmp_path / "a.py").write_text("one\n2\n")
    (tmp_path / "b.py").write_text("c\n")
    (tmp_path / "new.py").write_text("new\n")
    subprocess.run(["git", "add", "-N", "new.py"], cwd=tmp_path, check=True)
    patch = subprocess.run(["git", "diff"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    changed = with_new_content(patch, "a.py", before.encode(), after)
    assert changed
    changed = with_new_content(changed, "new.py", None, "other\n")
    assert changed
    subprocess.run(["git", "checkout", "-q", "a.py", "b.py"], cwd=tmp_path, check=True)
    subprocess.run(["git", "rm", "-q", "-f", "new.py"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-"], input=changed, text=True, cwd=tmp_path, check=True)
    assert [(tmp_path / name).read_text() for name in ("a.py", "b.py", "new.py")] == [after, "c\n", "other\n"]
    assert with_new_content(patch, "c.py", None, "x") is None
