"""Values that a test checks by way of other functions and libraries, or under conditions of its own."""

from __future__ import annotations

import ast

import pytest
from swerl_agent.grading.alterations import Names, TestSource
from swerl_agent.grading.checked_values import checked_values

HELPERS = """
def run_case(value, expected):
    assert f(value) == expected
def use(value, wanted):
    assert g(wanted) == f(value) == wanted
class Test:
    def go(self, value, wanted):
        self.assertEqual(f(value), wanted)
    def test_method(self):
        self.go(9, 5)
"""
FORMS = {  # the body of a test, and the texts of its values
    # libraries of assertions
    "assert_that(f()).is_equal_to(5)": {"5", "f()"},
    "f().should.equal(5)": {"5"},
    "expect(f()).to(equal(5))": {"5"},
    "assert_that(f(), equal_to(5))": {"5", "equal_to(5)"},
    "check.equal(f(), 5)": {"5"},
    "assert_that(f()).contains(x)": {"x", "f()"},
    "assert_that(f()).is_not_equal_to(5)": {"f()"},
    "f().should_not.equal(5)": set(),
    "query.filter(1).eq(5)": set(),
    # functions within the test
    "def check():\n        assert f() == 5\n    check()": {"5"},
    "async def main():\n        assert await f() == 5\n    asyncio.run(main())": {"5"},
    "async def main():\n        assert await f() == 5\n    anyio.run(main)": {"5"},
    "def check():\n        assert f() == 5\n    g(check)": set(),
    # helpers of the file
    "run_case(9, 5)": {"5"},
    "run_case(9, expected=5)": {"5"},
    "use(9, 5)": set(),
    "other(9, 5)": set(),
    # results that are kept, and conditions of the test's own
    "same = f() == 5\n    assert same": {"5"},
    "found = [f(n) == 5 for n in (8, 9)]\n    assert all(found)": {"5"},
    "assert not f() != 5": {"5"},
    "check = lambda: f() == 5\n    assert check()": {"5"},
    "check = lambda: f() == 5\n    assert wait(check)": set(),
    "match f():\n        case 5: pass\n        case _: raise AssertionError": {"5"},
    "n = 9\n    while n > 8:\n        assert f(n) == 5\n        n -= 1": {"5"},
    "try:\n        found = f()\n    except ValueError:\n        raise\n    else:\n        assert found == 5": {"5"},
    "if sys.version_info > (3, 8):\n        assert f() == 5": {"5"},
    "found = f()\n    if found:\n        assert found == 5": set(),
    "assert not f() == 5": set(),
    "assert f() != 5": set(),
    "assert f() == 5 or g() == 6": set(),
}


@pytest.mark.parametrize("body", FORMS)
def test_values_of_an_indirect_check(body: str) -> None:
    source = TestSource(f"{HELPERS}def test():\n    {body}\n")
    node = source.functions[Names("", "test")][1]
    assert {ast.get_source_segment(source.text, each.node) for each in checked_values(source, node)} == FORMS[body]


def test_value_of_a_method_that_checks() -> None:
    source = TestSource(HELPERS)
    (value,) = checked_values(source, source.functions[Names("Test", "test_method")][1])
    assert (value.form, ast.get_source_segment(source.text, value.node)) == ("exact", "5")
