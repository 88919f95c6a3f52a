"""Values that tests check: another one in their place makes an honest test fail, and a false one is found."""

from __future__ import annotations

import ast
import random
import unittest
from itertools import pairwise

import pytest
from swerl_agent.grading.alterations import Function, Names, TestSource, edited
from swerl_agent.grading.checked_values import checked_values
from swerl_agent.grading.replaced_values import KINDS, MAX_VALUES, ReplacementKind, changed, changes, replaced

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
    "assert key in f()": ["key", "f()"],
    "assert f() in (1, 2)": ["(1, 2)"],
    "self.assertIn(f(), (1, 2))": ["(1, 2)"],
    "assert np.allclose(f(), [1, 2])": ["1", "2"],
    "assert f() == {'a': [1, -2], 'b': x}": ["1", "2"],
    "if f() != 5: raise AssertionError(f())": ["5"],
    "if f() != expected: self.fail()": ["expected"],
    "if f() == 5: raise AssertionError(f())": [],
    "if f() != 5: g()": [],
    "assert f().equals(expected)": ["expected"],
    "assert f().startswith('a')": ["'a'"],
    "self.assertTrue(math.isclose(f(), 5))": ["5", "math.isclose(f(), 5)"],
    "assert not_equal(f(), 5)": [],
    "assert same('a')": [],
    "self.assertGreater(f(), 5)": ["self.assertGreater"],
    "self.assertLessEqual(f(), 5)": ["self.assertLessEqual"],
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
    "self.assertIn(key, f())": ["key", "f()"],
    "self.assertIsNotNone(f())": ["f()"],
    "self.assertContains(f(), text, 2)": ["2"],
    "mock.assert_called_with('x')": ["'x'"],
    "self.assertEqual(f(), expected, 'a message')": ["expected"],
    "assert all(each == 5 for each in f())": ["5"],
    # With another value in these, an honest test may pass.
    "assert f() == 5 or g() == 6": [],
    "assert any(each == 5 for each in f())": [],
    "assert not f() == 5": [],
    "assert len([each for each in f() if each < 5]) == 2": ["2"],
    "assert wait(lambda: f() == 5)": [],
    "self.assertNotEqual(f(), 5)": [],
    "self.assertAlmostEqual(f(), g(), 5)": ["g()", "f()"],
    "self.assertFalse(f() < 5 and g() < 5)": ["f() < 5 and g() < 5"],
    "self.assertEqual([each for each in f() if each < 5], [1])": ["1"],
    "self.assertParses('1 + 1')": [],
    "self.check_valid('1 + 1')": [],
    "if f(): assert g() == 5": [],
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


@pytest.mark.parametrize("value", [True, 5, 0.5, "text", "1", "", b"bytes"])
@pytest.mark.parametrize("check", ["assert f() == {!r}", "self.assertEqual(f(), {!r})"])
def test_constant_without_a_tolerance_also_gets_a_value_near_it(check: str, value: object) -> None:
    source, node = body_of(check.format(value))
    edits = [changed(source, node, change) for change in changes(checked_values(source, node), CHANCE)]
    others = [ast.literal_eval(edit.text) for edit in edits if edit]
    assert len(others) >= 2 and value not in others
    near, *_, far = sorted(others, key=lambda other: other - value if isinstance(value, int | float) else len(other))
    if isinstance(value, int | float):
        assert abs(near - value) == 1
    else:
        assert any(other.strip().lower() == value.strip().lower() for other in others)  # type: ignore[attr-defined]
    assert far != near or isinstance(value, bool)


def test_tolerated_constants_get_no_value_near_them() -> None:
    for check in (
        "assert f() == approx(5)",
        "self.assertAlmostEqual(f(), 5)",
        "assert isclose(f(), 5)",
        "assert 5 in f()",
    ):
        source, node = body_of(check)
        assert "exact" not in [each.form for each in checked_values(source, node)], check


@pytest.mark.parametrize("value", [4, 5, 6])
@pytest.mark.parametrize("name", ["assertGreater", "assertLess", "assertGreaterEqual", "assertLessEqual"])
def test_bound_becomes_one_that_fails_where_it_passes(name: str, value: int) -> None:
    source, node = body_of(f"self.{name}(f(), 5)")
    edit = changed(source, node, "value:0:1")
    assert edit

    def passes(method: str) -> bool:
        try:
            getattr(unittest.TestCase(), method)(value, 5)
        except AssertionError:
            return False
        return True

    assert passes(name) != passes(edit.text)


def test_a_few_values_of_many_are_tried() -> None:
    source, node = body_of("; ".join(f"assert f() == {number}" for number in range(50)))
    drawn = list(changes(checked_values(source, node), CHANCE))
    assert len(drawn) == len({change.split(":")[1] for change in drawn}) == MAX_VALUES


@pytest.mark.parametrize("check", ["assert f(9, 'a') == 5", "self.assertEqual(f(9, 'a'), [5, 'b'])"])
def test_constant_without_a_tolerance_also_gets_a_plausible_value(check: str) -> None:
    source, node = body_of(check)
    found = [replaced(source, node, value, CHANCE, "plausible") for value in checked_values(source, node)]
    assert [edit and edit.text for edit in found] == ["9", "'a'"][: len(found)]


@pytest.mark.parametrize(("value", "other"), [("'Low'", "'Lwo'"), ("b'no'", "b'on'"), ("'A-1'", None), ("'aa'", None)])
def test_text_in_a_file_without_others_gets_two_letters_in_each_others_place(value: str, other: str | None) -> None:
    source, node = body_of(f"assert f() == {value}")
    edit = replaced(source, node, checked_values(source, node)[0], CHANCE, "plausible")
    assert (edit and edit.text) == other


@pytest.mark.parametrize("check", ["assert f(9, 5.01) == approx(5)", "self.assertAlmostEqual(f(9, 5.01), 5)"])
def test_rounded_constant_gets_a_plausible_value_and_one_beyond_its_tolerance(check: str) -> None:
    source, node = body_of(check)
    value = next(each for each in checked_values(source, node) if each.form == "rounded")
    plausible, near = (replaced(source, node, value, CHANCE, kind) for kind in KINDS[:0:-1])
    assert plausible and plausible.text == "9"
    assert near and near.text == "6"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [True, 5, 0.5, "text", "1", "", b"bytes", [1], (1, "a"), {"a": 1}, [], None])
def test_value_that_is_computed_and_has_no_tolerance_gets_all_kinds(kind: ReplacementKind, value: object) -> None:
    source, node = body_of("assert f(7, 1.5, 'b', b'c') == expected")
    (checked,) = checked_values(source, node)
    edit = replaced(source, node, checked, CHANCE, kind)
    assert edit
    other = eval(edit.text, {"expected": value})
    assert other != value
    if isinstance(value, list | tuple | dict) and value and kind == "near":
        assert len(other) == len(value) and type(other) is type(value)


def test_constants_of_a_container_become_others() -> None:
    source, node = body_of("assert f(9, 5) in (5, 6)")
    (checked,) = checked_values(source, node)
    edit = replaced(source, node, checked, CHANCE)
    assert edit
    found = eval(edit.text)
    assert 9 in found and 5 not in found and 6 not in found


@pytest.mark.parametrize(
    "test",
    [
        "def test(expected):\n    assert f() == expected\n",
        "def test(expected): assert f() == expected\n",
        "def test(expected):\n    'Text.'\n    for _ in '1':\n        assert f() == expected\n",
        "def test():\n    expected = 5\n    assert f() == expected\n",
        "def test():\n    expected = 5\n    assert isinstance(expected, int) and f() == expected\n",
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
    assert changed(source, node, "value:9:0") is None


@pytest.mark.parametrize(
    ("passes", "other"),
    [("assert f() in range(99999)", 3), ("self.assertIn(3, f())", [3, 8]), ("assert f() == approx(90, abs=500)", 100)],
)
def test_other_results_of_honest_code_do_not_pass_with_another_value(passes: str, other: object) -> None:
    source, node = body_of(passes)
    for value in checked_values(source, node):
        edit = replaced(source, node, value, CHANCE)
        assert edit
        text = edited(source.text, [edit]).split("\n", 1)[1].replace("async ", "").replace("self.assertIn", "contains")
        names = {"f": lambda: other, "approx": pytest.approx, "contains": contains}
        exec(text, names)
        with pytest.raises((AssertionError, TypeError)):
            names["test"]()  # type: ignore[operator]


def contains(value: object, container: list[object]) -> None:
    assert value in container


def test_variable_that_code_may_get_otherwise_keeps_its_value() -> None:
    for use in (
        "run(lambda: expected)",
        "assert run(expected)",
        "assert run(x=[expected])",
        "run('{expected}'.format(**locals()))",
        "self.assertRoundTrips(expected, 5)",
        "self.assertRaises(ValueError, f, expected)",
    ):
        source = TestSource(f"def test(expected):\n    {use}\n    assert f() == expected\n")
        forms = [each.form for each in checked_values(source, source.functions[Names("", "test")][1])]
        assert "parameter" not in forms and "equal" in forms, use


@pytest.mark.parametrize("use", ["self.assertEqual(f(), expected)", "self.assertIn(expected, [5])"])
def test_variable_that_only_checks_compare_gets_another_value(use: str) -> None:
    source = TestSource(f"def test(expected):\n    {use}\n    assert f() == expected\n")
    forms = [each.form for each in checked_values(source, source.functions[Names("", "test")][1])]
    assert "parameter" in forms


@pytest.mark.parametrize("check", ["assert f(9, 8, 7) == 5", "got = f(9, 8, 7); assert got == g(5)[0]"])
def test_plausible_values_are_what_the_call_gets_each_in_its_turn(check: str) -> None:
    source = TestSource(f"def test():\n    assert f(1, 2, 3) == 4\n    {check}\n    assert f(6) == -1\n")
    node = source.functions[Names("", "test")][1]
    value = next(each for each in checked_values(source, node) if each.node.lineno == 3)
    for seed in range(20):
        edits = [replaced(source, node, value, random.Random(seed), "plausible", turn) for turn in range(3)]
        names = {"g": lambda *_: [5], "got": 5}
        assert {eval(edit.text, dict(names)) for edit in edits if edit} == {9, 8, 7}, seed


def test_values_that_are_drawn_lie_in_all_parts_of_a_test_and_neighbours_differ_in_kind() -> None:
    source, node = body_of("; ".join(f"assert f() == {number}" for number in range(80)))
    for seed in range(20):
        drawn = list(changes(checked_values(source, node), random.Random(seed)))
        drawn.sort(key=lambda change: int(change.split(":")[1]))
        assert [int(change.split(":")[1]) // 10 for change in drawn] == list(range(8))
        kinds = [int(change.split(":")[2]) % len(KINDS) for change in drawn]
        assert all(one != other for one, other in pairwise(kinds))
