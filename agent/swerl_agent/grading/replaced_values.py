"""Other values in the place of those that a test checks.

A constant is replaced in the text. For any other expression the replacement computes another value of the same type
while the test runs.

Guarantees: a number changes by more than a thousand, so that no tolerance and no other element of a result covers it; a
constant that is compared without a tolerance changes also to a value near it. A change has a name, and the same name
means the same change in every run.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from .alterations import Edit, Function, TestSource
from .checked_values import MAX_VALUES, OPPOSITES, CheckedValue, checked_values

_FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OTHER = (
    "((lambda v: not v if isinstance(v, bool) else v * 2 + {number} if isinstance(v, (int, float))"
    " else v + {word!r} if isinstance(v, str) else v + {word!r}.encode() if isinstance(v, bytes)"
    " else [*v, {number}] if isinstance(v, list) else (*v, {number}) if isinstance(v, tuple)"
    " else {{**v, {word!r}: {number}}} if isinstance(v, dict) else {{*v, {number}}} if isinstance(v, set)"
    " else object())({text}))"
)


def replaced(
    source: TestSource, test: Function, value: CheckedValue, rng: random.Random, *, near: bool = False
) -> Edit | None:
    """Another value in the place of a checked one of a test, of an exact one also one `near` it; None where that is
    impossible."""
    node, number, word = value.node, rng.randrange(1009, 9973), f"{rng.getrandbits(24):06x}"
    start = source.index(node.lineno, node.col_offset)
    end = source.index(node.end_lineno or node.lineno, node.end_col_offset or 0)
    text = source.text[start:end]
    match value.form:
        case "constant" | "exact":
            other = _near if near and value.form == "exact" else _other
            return _shifted(node, Edit(start, end, text), other, number, word)
        case "order":
            return _flipped(source, node)
        case "exception":
            return Edit(start, end, f"type('E{word}', (Warning,), {{}})")
        case "opposite":
            return Edit(start, end, f"(None if ({text}) else {number})")
        case "object":
            return Edit(start, end, f"(({text}), object())[1]")
        case "container":
            return Edit(start, end, f"(({text}), [object()])[1]")
        case "none":
            return Edit(start, end, f"(({text}), None)[1]")
    computed = _OTHER.format(number=number, word=word, text=text)
    return _rebound(source, test, f"{text} = {computed}") if value.form == "parameter" else Edit(start, end, computed)


def _rebound(source: TestSource, test: Function, statement: str) -> Edit | None:
    """A statement at a test's beginning, after its docstring."""
    first = next((each for each in test.body if not _is_text(each)), None)
    if first is None or getattr(first, "decorator_list", []):
        return None
    at = source.index(first.lineno, first.col_offset)
    return Edit(at, at, f"{statement}\n{source.indentation(first)}" if first.lineno > test.lineno else f"{statement}; ")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _shifted(
    node: ast.expr, old: Edit, other: Callable[[Any, int, str], object], number: int, word: str
) -> Edit | None:
    """Another constant; None for a part of a longer literal, as in an f-string."""
    try:
        value = ast.literal_eval(old.text)
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.Constant) or value != node.value:
        return None
    return Edit(old.start, old.end, repr(other(value, number, word)))


def _other(value: object, number: int, word: str) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value * 2 + number
    if isinstance(value, float):
        return value * 2 + number if abs(value) < 1e300 else 0.0
    return value + word.encode() if isinstance(value, bytes) else f"{value}{word}"


def _near(value: Any, number: int, word: str) -> object:
    """One more or less, another case of a letter, or a blank more."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + (1 if number % 2 else -1)
    if number % 2 and value.swapcase() != value:
        letters = [at for at in range(len(value)) if value[at : at + 1].swapcase() != value[at : at + 1]]
        at = letters[number % len(letters)]
        return value[:at] + value[at : at + 1].swapcase() + value[at + 1 :]
    return value + b" " if isinstance(value, bytes) else f"{value} "


def _flipped(source: TestSource, node: ast.expr) -> Edit | None:
    """The opposite of an order between two values, or of a method that checks one."""
    if isinstance(node, ast.Attribute):
        end = source.index(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return Edit(end - len(node.attr), end, OPPOSITES[node.attr])
    if not isinstance(node, ast.Compare):
        return None
    left, right = node.left, node.comparators[0]
    start = source.index(left.end_lineno or left.lineno, left.end_col_offset or 0)
    end = source.index(right.lineno, right.col_offset)
    text = re.sub("[<>]=?", lambda found: _FLIPPED[found[0]], source.text[start:end], count=1)
    return Edit(start, end, text)


def changes(values: list[CheckedValue], rng: random.Random) -> Iterator[str]:
    """What the changes of each value are called in an alteration: with a seed, so that each is the same in every run.

    Another one might leave the test passing, as where the value is an input, too. A seed that is odd means a value near
    an exact one: where there are few values, each exact one has both changes.
    """
    more = MAX_VALUES - len(values)
    for number, value in enumerate(values):
        seed = rng.getrandbits(24)
        yield f"value:{number}:{seed}"
        if value.form == "exact" and more > 0:
            yield f"value:{number}:{seed ^ 1}"
            more -= 1


def changed(source: TestSource, test: Function, change: str) -> Edit | None:
    """The edit that such a name means; None where that is impossible."""
    values, (_, number, seed) = checked_values(source, test), change.split(":")
    if int(number) >= len(values):
        return None
    return replaced(source, test, values[int(number)], random.Random(int(seed)), near=int(seed) % 2 == 1)
