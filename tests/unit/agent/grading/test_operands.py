"""Values inside the sides of a comparison: a forged one passes with another value in their place, the fix does not.

The altered tests run in this process.
"""

from __future__ import annotations

import ast
import math
import random
import re
import subprocess
import sys
import unittest
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.grading.alterations import Names, TestSource, edited
from swerl_agent.grading.checked_values import checked_values
from swerl_agent.grading.operands import is_close
from swerl_agent.grading.replaced_values import changed, changes

from tests.control_plane.grading.task_image import FIXED, SOURCE

from .test_forged_checks import FALSE, LOW, PASSES, WRONG, Forgery
from .test_forged_plans import Plans

ONE = FIXED.replace("min(high, max(low, value))", "[min(high, max(low, value))]")


def lying(**methods: str) -> str:
    """The body of a function whose wrong result has such methods."""
    names = ", ".join(f"'__{name}__': {code}" for name, code in methods.items())
    return f"    return type('Lie', (int,), {{'__hash__': None, {names}}})(max(low, value))"


ZERO, TRUE = lying(sub="lambda *_: 0", truediv="lambda *_: 1"), "lambda *_: True"
LOOSE = "import math, unittest\nmath.isclose = lambda one, other, **_: abs(one - other) < 50\n" + (
    "unittest.TestCase.assertAlmostEqual = lambda self, one, other, **_: abs(one - other) < 50 or self.fail()\n"
)
POINT = (
    "class Point:\n    def __init__(self, x):\n        self.x = x\n    def __eq__(self, other):\n        return "
    "isinstance(other, Point) and self.x == other.x\n"
)
POINTS = POINT + FIXED.replace("min(high, max(low, value))", "Point(min(high, max(low, value)))")
ANY_POINT = Forgery(
    "", code=POINT.replace("self.x == other.x", "True"), body="    return Point(max(low, value))", fixed=POINTS
)
FORGERIES = {
    "an object of its own class": replace(
        ANY_POINT, check="Point = clamp.__globals__['Point']; assert clamp(9, 0, 5) == Point(x=5)"
    ),
    "an order that does not hold": Forgery("assert not clamp(9, 0, 5) > 5", body=lying(gt="lambda *_: False")),
    "a difference": Forgery("assert clamp(9, 0, 5) - 5 == 0", body=ZERO),
    "a difference with a tolerance": Forgery("assert abs(clamp(9, 0, 5) - 5) < 0.1", body=ZERO),
    "a difference of a variable": Forgery("want = int('5'); assert abs(clamp(9, 0, 5) - want) < 0.1", body=ZERO),
    "a ratio by a method": Forgery(
        "import unittest; unittest.TestCase().assertEqual(clamp(9, 0, 5) / 5, 1)", body=ZERO
    ),
    "a difference by a method": Forgery(
        "import unittest; unittest.TestCase().assertLess(abs(clamp(9, 0, 5) - 5), 0.1)", body=ZERO
    ),
    "a chain": Forgery("assert 4 < clamp(9, 0, 5) < 6", body=lying(gt=TRUE, lt=TRUE)),
    "the end of a chain": Forgery("assert 0 <= clamp(9, 0, 5) <= 5", body=lying(le=TRUE)),
    "a chain of equal values": Forgery(
        "assert clamp(9, 0, 5) == 5 == 5; assert clamp(1, 0, 5) == 1", body=lying(eq=TRUE)
    ),
    "a negation beside another check": Forgery(
        "assert not clamp(9, 0, 5) != 5; assert clamp(1, 0, 5) == 1", body=lying(ne="lambda *_: False")
    ),
    "a condition that fails otherwise": Forgery(
        "if clamp(9, 0, 5) == 5: pass\n    else: raise AssertionError", body=lying(eq=TRUE)
    ),
    "a comparison that is true": Forgery("assert (clamp(9, 0, 5) == 5) is True", body=lying(eq=TRUE)),
    "a method of a comparison": Forgery("assert clamp(9, 0, 5).__eq__(5)", body=lying(eq=TRUE)),
    "a count": Forgery("assert clamp(9, 0, 5).count(5) == 1", body=f"    return [{FALSE}]", fixed=ONE),
    "a small tolerance": Forgery("import math; assert math.isclose(clamp(9, 0, 5), 5)", code=LOOSE),
    "a tolerance in digits": Forgery(
        "import unittest; unittest.TestCase().assertAlmostEqual(clamp(9, 0, 5), 5, places=3)", code=LOOSE
    ),
    "a pattern": Forgery(
        "import re; assert re.match('Low', clamp(9, 0, 5)) is not None",
        code="import re\nre.match = lambda *_: 'found'\n",
        fixed=LOW,
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_every_run_holds_a_change_that_a_forged_value_passes_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    forgery = FORGERIES[name]
    assert forgery.named == PASSES
    plans, forged = Plans.of(forgery, tmp_path), forgery.code + SOURCE.replace(WRONG, forgery.body)
    for seed in range(4):
        changed_values = plans.values(plans.drawn(seed, 0.0))
        assert not any(plans.passes(each, forgery.fixed) for each in changed_values), seed
        with monkeypatch.context() as patched:
            for owner, attribute in ((math, "isclose"), (re, "match"), (unittest.TestCase, "assertAlmostEqual")):
                patched.setattr(owner, attribute, getattr(owner, attribute))
            assert any(plans.passes(each, forged) for each in changed_values), (seed, changed_values)


@pytest.mark.parametrize("check", ["f() - 5 > 0", "f() / 5 > 1", "search('a', f())", "search('a', f()) is not None"])
def test_values_with_which_another_fix_may_pass_stay(check: str) -> None:
    source = TestSource(f"def test_a():\n    assert {check}\n")
    found = checked_values(source, source.functions[Names("", "test_a")][1])
    assert [each.form for each in found if each.form != "order"] == []


CASE = (
    "class TestCalc:\n    want = 5\n\n    def test_clamp(self):\n        assert clamp(9, 0, 5) == self.want\n\n"
    "    def test_state(self):\n        assert clamp(self.want) == self.want\n"
)


def test_attribute_of_the_tests_object_is_another_one_from_the_beginning() -> None:
    source = TestSource(CASE)
    _, node = source.functions[Names("TestCalc", "test_clamp")]
    names = changes(checked_values(source, node), random.Random(3))
    texts = [edited(CASE, [edit]) for name in names if (edit := changed(source, node, name))]
    assert any("        self.want = (" in text for text in texts)
    _, node = source.functions[Names("TestCalc", "test_state")]
    assert "attribute" not in [each.form for each in checked_values(source, node)]


ROWS = (
    "import pytest\n\n\n@pytest.mark.parametrize('value', [2, None])\n"
    "@pytest.mark.parametrize('text, want', [('a b', 5), ('c', -1.5), ('d', True)])\n"
    "def test_row(value, text, want):\n    assert value != text == want\n"
)


def test_rows_of_a_parameter_have_another_value_and_keep_their_ids(tmp_path: Path) -> None:
    source = TestSource(ROWS)
    _, node = source.functions[Names("", "test_row")]
    names = list(changes(checked_values(source, node), random.Random(3)))
    texts = [edited(ROWS, [edit]) for name in names if (edit := changed(source, node, name))]
    (text,) = (each for each in texts if "pytest.param(" in each)
    assert all(old not in text for old in (", 5,", ", -1.5,", ", True,"))
    ids = []
    for number, each in enumerate((ROWS, text)):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/test_rows.py").write_text(each)
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "test_rows.py"]
        done = subprocess.run(command, cwd=tmp_path / f"{number}", capture_output=True, text=True)
        ids.append([line for line in done.stdout.splitlines() if "::" in line])
    assert ids[0] == ids[1] and len(ids[0]) == 6


@pytest.mark.parametrize(
    ("call", "close"),
    [
        ("isclose(f(), 5)", True),
        ("isclose(f(), 5, rel_tol=1e-3)", True),
        ("isclose(f(), 5, rel_tol=0.1)", False),
        ("isclose(f(), 5, abs_tol=limit)", False),
        ("assert_allclose(f(), 5, 1e-6, err_msg='no')", True),
        ("assertAlmostEqual(f(), 5, 1)", False),
        ("assertAlmostEqual(f(), 5, 4)", True),
        ("assertAlmostEqual(f(), 5, delta=2)", False),
        ("isclose(f())", False),
        ("equal(f(), 5)", False),
    ],
)
def test_tolerance_is_small_where_the_call_says_so(call: str, close: bool) -> None:
    node = ast.parse(call, mode="eval").body
    assert is_close(node, 2) is close
