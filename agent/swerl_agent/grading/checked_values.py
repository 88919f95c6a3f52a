"""Values that a test checks, and others in their place with which it must fail.

Checks are `assert` statements, calls of assertion functions by their names, expected exceptions, and calls of checking
helpers of the tests. A constant is replaced in the text. For any other expression the replacement computes another
value of the same type while the test runs.

Guarantees: every value lies in the test's own body; whether the test fails without it is for the reference fix to show.
What the code under test gets stays: an honest patch may answer to another input otherwise than the reference fix.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .alterations import Edit, Function, TestSource, own_nodes

Form = Literal["constant", "other", "opposite", "order", "exception", "parameter"]
MAX_VALUES = 8  # of one test that are tried
_ASSERTS = re.compile(r"assert", re.IGNORECASE)
_CHECKS = re.compile(r"check|verif|expect|compar|equal|same|ensure|must|should", re.IGNORECASE)
_OF_TESTS = re.compile(
    r"(?:^|[._])(?:tests?|testing|helpers?|utils?|common|support|conftest|fixtures?|checks?)(?:[._\d]|$)"
)
_CONSTRUCTORS = ("approx", "set", "frozenset", "list", "tuple", "array", "Decimal", "Fraction", "date", "datetime")
_EXCEPTIONS = re.compile(r"(?:^|[a-z_])(?:[rR]aises|[wW]arns)")
_SINGLE = ("assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone")  # the second argument is a message
_FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OTHER = (
    "((lambda v: not v if isinstance(v, bool) else v + {number} if isinstance(v, (int, float))"
    " else v + {word!r} if isinstance(v, str) else v + {word!r}.encode() if isinstance(v, bytes)"
    " else [*v, {number}] if isinstance(v, list) else (*v, {number}) if isinstance(v, tuple)"
    " else {{**v, {word!r}: {number}}} if isinstance(v, dict) else {{*v, {number}}} if isinstance(v, set)"
    " else object())({text}))"
)


@dataclass(frozen=True)
class CheckedValue:
    """An expression of a test, and how another value takes its place."""

    node: ast.expr
    form: Form


def checked_values(source: TestSource, node: Function) -> list[CheckedValue]:
    """What a test's checks compare, the first few of it."""
    found: list[CheckedValue] = []
    for each in own_nodes(node):
        if isinstance(each, ast.Assert):
            found += _compared(each.test)
        elif isinstance(each, ast.Call) and _EXCEPTIONS.search(_called(each)):
            found += [CheckedValue(each.args[0], "exception")] if each.args else []
            found += _constants([*each.args[1:2], *(word.value for word in each.keywords if word.arg == "match")])
        elif isinstance(each, ast.Call) and _ASSERTS.search(_called(each)):
            found += _arguments(each)
        elif isinstance(each, ast.Expr):
            found += _helped(source, each.value)
    return _unique([*found, *_bound(node, found)])[:MAX_VALUES]


def _unique(found: list[CheckedValue]) -> list[CheckedValue]:
    usable = [each for each in found if not isinstance(each.node, ast.Starred)]
    by_place = {(each.node.lineno, each.node.col_offset, each.form): each for each in usable}
    return [by_place[place] for place in sorted(by_place)]


def _bound(node: Function, values: list[CheckedValue]) -> Iterator[CheckedValue]:
    """Where names among the values get theirs, if nothing else uses them: code may set a variable of its caller."""
    used = [each.id for each in own_nodes(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    named = [each.node for each in values if each.form == "other" and isinstance(each.node, ast.Name)]
    names = {each.id: each for each in named if used.count(each.id) == 1}
    yield from (CheckedValue(names[each.arg], "parameter") for each in node.args.args if each.arg in names)
    for each in own_nodes(node):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id in names:
            yield from _constants([each.value])


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _compared(test: ast.expr) -> list[CheckedValue]:
    """Values of the comparisons in an expression that decides."""
    found: list[CheckedValue] = []
    for each in ast.walk(test):
        if not isinstance(each, ast.Compare) or len(each.ops) > 1:
            continue
        left, operator, right = each.left, each.ops[0], each.comparators[0]
        if isinstance(operator, ast.In):
            found += _constants([left]) or [CheckedValue(left, "other")]
        elif isinstance(operator, ast.Eq):
            found += _one_of(left, right)
        elif isinstance(operator, ast.Is):  # no object can be another one
            found += _constants([right], calls=False)
        elif isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            found.append(CheckedValue(each, "order"))
    return found


def _one_of(left: ast.expr, right: ast.expr) -> list[CheckedValue]:
    """Of two values that must be equal, the expected one: a constant, else what is not computed, else both."""
    literal = next((found for side in (right, left) if (found := _constants([side], calls=False))), [])
    if literal:
        return literal
    plain = [side for side in (right, left) if not any(isinstance(each, ast.Call) for each in ast.walk(side))]
    others = [CheckedValue(side, "other") for side in plain[:1] or (right, left)]
    return [*_constants([right]), *others]


def _arguments(call: ast.Call) -> list[CheckedValue]:
    """Values in the arguments of a check."""
    compared = [found for argument in call.args for found in _compared(argument)]
    if len(call.args) == 1 or _called(call) in _SINGLE:
        return [*compared, *_constants(call.args[:1]), *(CheckedValue(each, "opposite") for each in call.args[:1])]
    constants = _constants(call.args[:3], calls=False)
    if constants or len(call.args) < 2:
        return [*compared, *constants]
    return [*compared, *_one_of(call.args[0], call.args[1])]


def _helped(source: TestSource, value: ast.expr) -> list[CheckedValue]:
    """The last argument of a checking helper of the tests, which is the expected one as a rule."""
    call = value.value if isinstance(value, ast.Await) else value
    if not isinstance(call, ast.Call) or not call.args or not _CHECKS.search(_called(call)):
        return []
    function = call.func
    own = isinstance(function, ast.Attribute) and getattr(function.value, "id", "") in ("self", "cls")
    if not own and not (isinstance(function, ast.Name) and function.id in _helpers(source)):
        return []
    single: Form = "opposite" if len(call.args) == 1 else "other"
    return _constants(call.args[-1:], calls=False) or [CheckedValue(call.args[-1], single)]


def _helpers(source: TestSource) -> set[str]:
    """Functions that the test file defines, or imports from what by its name belongs to tests."""
    found = {names.function for names in source.functions if not names.owner}
    for each in ast.walk(source.tree):
        if isinstance(each, ast.ImportFrom) and (each.level or _OF_TESTS.search(each.module or "")):
            found |= {alias.asname or alias.name for alias in each.names}
    return found


def _constants(sides: list[ast.expr], *, calls: bool = True) -> list[CheckedValue]:
    """The first constant of each."""
    found = [constant for side in sides if (constant := _constant(side, calls=calls))]
    return [CheckedValue(each, "constant") for each in found]


def _constant(side: ast.expr, *, calls: bool) -> ast.Constant | None:
    parts: list[ast.expr] = []
    if isinstance(side, ast.Constant):
        shiftable = isinstance(side.value, bool | int | float | str | bytes) and side.lineno == side.end_lineno
        return side if shiftable else None
    if isinstance(side, ast.UnaryOp):
        parts = [side.operand]
    elif isinstance(side, ast.List | ast.Tuple | ast.Set):
        parts = side.elts
    elif isinstance(side, ast.Dict):
        parts = side.values
    elif isinstance(side, ast.Call) and calls and _called(side) in _CONSTRUCTORS:
        parts = side.args
    return next((found for each in parts if (found := _constant(each, calls=calls))), None)


def replaced(source: TestSource, test: Function, value: CheckedValue, chance: random.Random) -> Edit | None:
    """Another value in the place of a checked one of a test; None where that is impossible."""
    node, number, word = value.node, chance.randrange(2, 9), f"{chance.getrandbits(24):06x}"
    start = source.index(node.lineno, node.col_offset)
    end = source.index(node.end_lineno or node.lineno, node.end_col_offset or 0)
    text = source.text[start:end]
    match value.form:
        case "constant":
            return _shifted(node, Edit(start, end, text), number, word)
        case "order":
            return _flipped(source, node)
        case "exception":
            return Edit(start, end, f"type('E{word}', (Warning,), {{}})")
        case "opposite":
            return Edit(start, end, f"(None if ({text}) else {number})")
    other = _OTHER.format(number=number, word=word, text=text)
    return _rebound(source, test, f"{text} = {other}") if value.form == "parameter" else Edit(start, end, other)


def _rebound(source: TestSource, test: Function, statement: str) -> Edit | None:
    """A statement at a test's beginning, after its docstring."""
    first = next((each for each in test.body if not _is_text(each)), None)
    if first is None or getattr(first, "decorator_list", []):
        return None
    at = source.index(first.lineno, first.col_offset)
    return Edit(at, at, f"{statement}\n{source.indentation(first)}" if first.lineno > test.lineno else f"{statement}; ")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _shifted(node: ast.expr, old: Edit, number: int, word: str) -> Edit | None:
    """Another constant; None for a part of a longer literal, as in an f-string."""
    try:
        value = ast.literal_eval(old.text)
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.Constant) or value != node.value:
        return None
    return Edit(old.start, old.end, repr(_other(value, number, word)))


def _other(value: object, number: int, word: str) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + number
    if isinstance(value, float):
        return value * 2 + number if abs(value) < 1e300 else 0.0
    return value + word.encode() if isinstance(value, bytes) else f"{value}{word}"


def _flipped(source: TestSource, node: ast.expr) -> Edit | None:
    """The opposite of an order between two values."""
    if not isinstance(node, ast.Compare):
        return None
    left, right = node.left, node.comparators[0]
    start = source.index(left.end_lineno or left.lineno, left.end_col_offset or 0)
    end = source.index(right.lineno, right.col_offset)
    text = re.sub("[<>]=?", lambda found: _FLIPPED[found[0]], source.text[start:end], count=1)
    return Edit(start, end, text)


def changes(values: list[CheckedValue], chance: random.Random) -> Iterator[str]:
    """What the change of each value is called in an alteration: with a seed, so that it is the same in every run.

    Another one might leave the test passing, as where the value is an input, too.
    """
    return (f"value:{number}:{chance.getrandbits(24)}" for number in range(len(values)))


def changed(source: TestSource, test: Function, change: str) -> Edit | None:
    """The edit that such a name means; None where that is impossible."""
    values, (_, number, seed) = checked_values(source, test), change.split(":")
    return replaced(source, test, values[int(number)], random.Random(int(seed))) if int(number) < len(values) else None
