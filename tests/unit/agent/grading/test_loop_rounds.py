"""Checks in loops: a change holds for one round, each round has its turn, and loops that may leave it out stay."""

from __future__ import annotations

import random
from typing import Any

import pytest
from swerl_agent.grading.alterations import Edit, Names, TestSource, edited
from swerl_agent.grading.checked_values import checked_values
from swerl_agent.grading.loop_rounds import in_one_round
from swerl_agent.grading.replaced_values import changed, changes


def altered(check: str, turn: int) -> str:
    """A test with this check, whose first value becomes -1 in one round."""
    source = TestSource(f"def test(f, given=None):\n    {check}\n")
    node = source.functions[Names("", "test")][1]
    value = checked_values(source, node)[0].node
    start, end = source.index(value.lineno, value.col_offset), source.index(value.lineno, value.end_col_offset or 0)
    return edited(source.text, [in_one_round(source, node, value, Edit(start, end, "-1"), turn)])


def passes(text: str, right_for: set[int], given: Any = None) -> bool:
    """Whether the test passes with code that is right for these values, and equal to all others otherwise."""
    same = type("Same", (int,), {"__eq__": lambda *_: True, "__hash__": None})
    names: dict[str, Any] = {}
    exec(text, names)
    try:
        names["test"](lambda value: value if value in right_for else same(), given)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    "check",
    [
        "for n in (1, 2, 3): assert f(n) == n",
        "for n in range(1, 4): assert f(n) == n",
        "for n in {1: 'a', 2: 'b', 3: 'c'}.keys(): assert f(n) == n",
        "for n in reversed([3, 2, 1]): assert f(n) == n",
        "for n, _ in zip([1, 2, 3], 'abc'): assert f(n) == n",
        "assert all(f(n) == n for n in [1, 2, 3])",
        "for _ in 'a':\n        for n in [1, 2, 3]:\n            assert f(n) == n",
    ],
)
def test_code_that_is_wrong_in_one_round_is_found_in_its_turn(check: str) -> None:
    for wrong in (1, 2, 3):
        right = {1, 2, 3} - {wrong}
        assert [passes(altered(check, turn), right) for turn in range(3)] == [turn == wrong - 1 for turn in range(3)]
        assert not passes(altered(check, wrong - 1), {1, 2, 3})


@pytest.mark.parametrize(
    "check",
    [
        "for n in (1, 2):\n        if n == 1: continue\n        assert f(n) == n",
        "assert all(f(n) == n for n in (1, 2) if n > 1)",
    ],
)
def test_loop_that_leaves_rounds_out_stays(check: str) -> None:
    assert "lambda each" not in altered(check, 0)
    assert not passes(altered(check, 0), {1, 2})


def test_loop_over_a_stream_has_all_rounds() -> None:
    for turn in range(3):
        stream = iter([5, 6])
        assert passes(altered("for n in given: assert f(n) == n", turn), set(), stream)
        assert list(stream) == []


def test_changes_of_a_value_in_a_loop_reach_each_of_its_rounds() -> None:
    source = TestSource("def test(f, given):\n    for n in (1, 2, 3): assert f(n) == n\n")
    node = source.functions[Names("", "test")][1]
    for seed in range(20):
        found = [changed(source, node, each) for each in changes(checked_values(source, node), random.Random(seed))]
        texts = [edited(source.text, [edit]) for edit in found if edit]
        for wrong in (1, 2, 3):
            assert any(passes(text, {1, 2, 3} - {wrong}) for text in texts), (seed, wrong)
            assert not any(passes(text, {1, 2, 3}) for text in texts), seed
