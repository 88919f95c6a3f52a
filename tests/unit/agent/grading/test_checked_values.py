"""Values that tests check: another one in their place makes an honest test fail, and a false one is found."""

from __future__ import annotations

import ast
import random

import pytest
from swerl_agent.grading.alterations import Function, Names, TestSource, edited
from swerl_agent.grading.checked_values import MAX_VALUES, changed, changes, checked_values, replaced

CHANCE = random.Random(7)
FORMS = {  # a check, and the texts of its values in their order
    "assert f() == 5": ["5"],
    "assert 5 == f()": ["5"],
    "assert f() == expected": ["expected"],
    "assert f(1) == g(2)": ["g(2)", "f(1)"],
    "assert f(x) == x": ["x"],
    "assert f() == [a, 'x']": ["'x'"],
    "assert f() == pytest.approx(0.5)": ["0.5", "pytest.approx(0.5)", "f()"],
    "assert 'a' in f()": ["'a'"],
    "assert key in f()": ["key"],
    "assert f() < 6 and g()": ["f() < 6"],
    "self.assertTrue(f())": ["f()"],
    "self.assertEqual(f(), expected)": ["expected"],
    "self.assertAlmostEqual(f(), 0.5, places=2)": ["0.5"],
    "check(f(), 5)": ["5"],
    "await verify(f(), expected)": ["expected"],
    "assert f() is True": ["True"],
    "self.check_it(f(), 'x', 5)": ["5"],
    "check(g)": ["g"],
    "check_product(f(), 5)": [],
    "helper(f(), 5)": [],
    "self.assertRaises(ValueError, f)": ["ValueError"],
    "pytest.raises(ValueError, match='low')": ["ValueError", "'low'"],
    "time.sleep(1)": [],
    "assert f() is None": [],
    "assert f'{x}' == y": ["y"],
}


def body_of(check: str) -> tuple[TestSource, Function]:
    source = TestSource(f"from .tests import check, verify\nasync def test():\n    {check}\n")
    return source, source.functions[Names("", "test")][1]


@pytest.mark.parametrize("check", FORMS)
def test_values_of_a_check(check: str) -> None:
    source, node = body_of(check)
    found = [ast.get_source_segment(source.text, each.node) for each in checked_values(source, node)]
    assert sorted(filter(None, found)) == sorted(FORMS[check])


@pytest.mark.parametrize("check", FORMS)
def test_another_value_leaves_a_file_that_python_reads(check: str) -> None:
    source, node = body_of(check)
    for value in checked_values(source, node):
        edit = replaced(source, node, value, CHANCE)
        assert edit and ast.parse(edited(source.text, [edit]))
        assert edited(source.text, [edit]) != source.text


@pytest.mark.parametrize("value", [True, 5, 0.5, "text", b"bytes", [1], (1,), {"a": 1}, {1}, None, object()])
def test_value_that_is_computed_is_replaced_by_another_of_its_type(value: object) -> None:
    source, node = body_of("assert f() == expected")
    edit = replaced(source, node, checked_values(source, node)[0], CHANCE)
    assert edit
    other = eval(edit.text, {"expected": value})
    assert other != value
    assert type(other) is (type(value) if value is not None else object)


def test_a_few_values_of_many_are_tried() -> None:
    source, node = body_of("; ".join(f"assert f() == {number}" for number in range(50)))
    assert len(checked_values(source, node)) == MAX_VALUES


@pytest.mark.parametrize(
    "test",
    [
        "def test(expected):\n    assert f() == expected\n",
        "def test(expected): assert f() == expected\n",
        "def test(expected):\n    'Text.'\n    if f:\n        assert f() == expected\n",
        "def test():\n    expected = 5\n    assert f() == expected\n",
    ],
)
def test_variable_that_is_compared_gets_another_value_where_it_is_bound(test: str) -> None:
    source = TestSource(test)
    node = source.functions[Names("", "test")][1]
    edits = [replaced(source, node, value, CHANCE) for value in checked_values(source, node)]
    changed = [edited(source.text, [edit]) for edit in edits if edit]
    assert len(changed) == 2
    for text in changed:
        names = {"f": lambda: 5}
        exec(text, names)
        with pytest.raises(AssertionError):
            names["test"](*[5][: node.args.args != []])  # type: ignore[call-arg]


def test_change_of_a_value_is_the_same_in_every_run() -> None:
    source, node = body_of("assert f(high) == high and f('a') == 'a'")
    for change in changes(checked_values(source, node), CHANCE):
        assert changed(source, node, change) == changed(source, node, change)
    assert changed(source, node, "value:9:1") is None
