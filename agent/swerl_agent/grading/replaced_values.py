"""Other values in the place of those that a test checks.

A constant is replaced in the text. For any other expression the replacement computes another value of the same type
while the test runs.

Guarantees: a number changes by more than a thousand, so that no tolerance and no other element of a result covers it. A
value that is compared without a tolerance, or with a small one, changes also to one near it. It also changes to
plausible ones (`plausible_values`), each to another. Of many values those that are drawn lie all over the test, and
neighbours differ in their kinds. A change has a name, and the same name means the same change in every run.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from typing import Any, Literal

from .alterations import Edit, Function, TestSource, statement_at_start
from .checked_values import OPPOSITES, CheckedValue, checked_values
from .loop_rounds import in_one_round
from .parameter_rows import changed_rows
from .plausible_values import PlausibleValues, plausible_values

ReplacementKind = Literal["far", "near", "plausible"]
KINDS: tuple[ReplacementKind, ...] = ("far", "near", "plausible")
MAX_VALUES = 8  # of one test that are tried
MORE_PLAUSIBLE = 2  # values, beside one of each kind, where a test has few values
TURNS = len(KINDS) + MORE_PLAUSIBLE  # changes of one value
_WITHOUT_TOLERANCE = ("exact", "equal", "rounded")
_FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_ORDER_BEFORE = re.compile(r"([<>]=?)[\s(\\]*$")
_OTHER = (
    "((lambda v: not v if isinstance(v, bool) else v * 2 + {number} if isinstance(v, (int, float))"
    " else v + {word!r} if isinstance(v, str) else v + {word!r}.encode() if isinstance(v, bytes)"
    " else [*v, {number}] if isinstance(v, list) else (*v, {number}) if isinstance(v, tuple)"
    " else {{**v, {word!r}: {number}}} if isinstance(v, dict) else {{*v, {number}}} if isinstance(v, set)"
    " else object())({text}))"
)
_NEAR = (
    "(lambda near: near(near, ({text})))(lambda near, v: not v if isinstance(v, bool)"
    " else v + 1 if isinstance(v, (int, float))"
    " else v + (' ' if isinstance(v, str) else b' ') if isinstance(v, (str, bytes)) and v.swapcase() == v"
    " else v.swapcase() if isinstance(v, (str, bytes))"
    " else [near(near, e) if at == {number} % len(v) else e for at, e in enumerate(v)] if isinstance(v, list) and v"
    " else tuple(near(near, e) if at == {number} % len(v) else e for at, e in enumerate(v))"
    " if isinstance(v, tuple) and v"
    " else {{k: near(near, e) if at == {number} % len(v) else e for at, (k, e) in enumerate(v.items())}}"
    " if isinstance(v, dict) and v else object())"
)


def replaced(
    source: TestSource,
    test: Function,
    value: CheckedValue,
    rng: random.Random,
    kind: ReplacementKind = "far",
    turn: int = 0,
) -> Edit | None:
    """Another value in the place of a checked one of a test. `kind` holds for values compared without a tolerance, and
    a plausible one is another for each `turn`. None where that is impossible."""
    node, number, word = value.node, rng.randrange(1009, 9973), f"{rng.getrandbits(24):06x}"
    start = source.index(node.lineno, node.col_offset)
    end = source.index(node.end_lineno or node.lineno, node.end_col_offset or 0)
    text = source.text[start:end]
    plausible = plausible_values(source, test, node, rng)
    match value.form:
        case "constant" | "exact" | "rounded":
            own = _literal(node, text)
            if own is None:
                return None
            if value.form != "constant" and kind == "plausible":
                before = source.text[:start].rstrip()
                other = _plausible(value, own, plausible, turn, negative=before.endswith("-"))
                return None if other is None else Edit(start, end, other)
            near = _near if value.form == "exact" else _beyond_small_tolerances if value.form == "rounded" else _other
            return Edit(start, end, repr((near if kind == "near" else _other)(own, number, word)))
        case "order":
            return _flipped(source, node)
        case "row":
            return changed_rows(source, test, text, lambda cell: _other(cell, number, word))
        case "bound":
            return _flipped_before(source.text, start)
        case "exception":
            return Edit(start, end, f"type('E{word}', (Warning,), {{}})")
        case "opposite":
            return Edit(start, end, f"(None if ({text}) else {number})")
        case "object":
            return Edit(start, end, f"(({text}), object())[1]")
        case "container":
            return Edit(start, end, plausible.outside(text))
        case "none":
            return Edit(start, end, f"(({text}), None)[1]")
        case "equal" if kind == "near":
            return Edit(start, end, f"({_NEAR.format(number=number, text=text)})")
        case "equal" if kind == "plausible":
            return Edit(start, end, plausible.other_than(text, turn))
    computed = _OTHER.format(number=number, word=word, text=text)
    rebound = value.form in ("parameter", "attribute")
    return statement_at_start(source, test, f"{text} = {computed}") if rebound else Edit(start, end, computed)


def _plausible(value: CheckedValue, own: Any, others: PlausibleValues, turn: int, *, negative: bool) -> str | None:
    """An expression in the place of the constant `own`, which may be `negative`; None where there is no other one."""
    constants = [-each if negative and isinstance(each, int | float) else each for each in others.constants]
    if value.form == "rounded" and isinstance(own, int | float):  # far from it by all tolerances
        numbers = [each for each in constants if isinstance(each, int | float)]
        found = [each for each in numbers if abs(each - own) > abs(own) / 100]
    else:
        found = [each for each in constants if type(each) is type(own) and each != own]
    lone = _transposed(own, turn) if not found and isinstance(own, str | bytes) else None
    if value.form == "exact" and others.names:
        return others.other_than(repr(own), turn, lone)
    if found:
        return repr(found[turn % len(found)])
    return None if lone is None else repr(lone)


def _literal(node: ast.expr, text: str) -> Any:
    """The value of a constant; None for a part of a longer literal, as in an f-string."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(node, ast.Constant) and value == node.value else None


def _transposed(value: Any, number: int) -> Any:
    """A text with two letters of one case in each other's place, None where it has no two such beside each other."""
    pairs = [(at, value[at : at + 1], value[at + 1 : at + 2]) for at in range(len(value) - 1)]
    found = [(at, one, other) for at, one, other in pairs if one != other and (one + other).isalpha()]
    same = [pair for pair in found if pair[1].islower() == pair[2].islower()]
    if not same:
        return None
    at, one, other = same[number % len(same)]
    return value[:at] + other + one + value[at + 2 :]


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


def _beyond_small_tolerances(value: Any, number: int, word: str) -> object:
    """A number one or a tenth greater; far from any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _other(value, number, word)
    return value + max(1, abs(value) // 10 if isinstance(value, int) else abs(value) / 10)


def _flipped_before(text: str, end: int) -> Edit | None:
    """The opposite of the order that a text gives before `end`."""
    found = _ORDER_BEFORE.search(text[:end])
    return Edit(found.start(1), found.end(1), _FLIPPED[found[1]]) if found else None


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
    """What the changes of a few values are called in an alteration: with a seed, so that each is the same in every run.

    Another one might leave the test passing, as where the value is an input, too. The seed gives the kind of change for
    a value that is compared without a tolerance, and its turn among the changes of this value: where there are few
    values, each such one has all kinds, and its plausible changes differ.
    """
    numbers, first = _spread(len(values), rng), rng.randrange(2)
    with_kinds = [number for number in numbers if values[number].form in _WITHOUT_TOLERANCE]
    kinds = {number: first + at for at, number in enumerate(with_kinds)}
    bits = {number: rng.getrandbits(24) for number in numbers}
    drawn = rng.sample(numbers, len(numbers))
    named = [
        f"value:{number}:{(bits[number] * TURNS + turn) * len(KINDS) + _kind(kinds.get(number), turn)}"
        for turn in range(TURNS)
        for number in drawn
        if turn == 0 or number in kinds
    ]
    yield from named[:MAX_VALUES]


def _spread(count: int, rng: random.Random) -> list[int]:
    """At most MAX_VALUES numbers below `count`: one of each part of the same length."""
    parts = min(count, MAX_VALUES)
    return [rng.randrange(count * at // parts, count * (at + 1) // parts) for at in range(parts)]


def _kind(first: int | None, turn: int) -> int:
    """Index of a change's kind: near and plausible by turns, far, then plausible; None is a value with a tolerance.

    What equals near or plausible values by itself mostly equals far ones, too, so these come when all have the others.
    """
    if first is None or turn == 2:
        return KINDS.index("far")
    near = turn < 2 and (first + turn) % 2
    return KINDS.index("near" if near else "plausible")


def is_far(change: str) -> bool:
    """Whether such a change is to a value that neither tolerance nor counting reaches."""
    return _decoded(change)[3] == "far"


def is_extra(change: str) -> bool:
    """Whether such a change is one more of a kind that the value's first changes have."""
    return change.startswith("value:") and _decoded(change)[2] >= len(KINDS)


def _decoded(change: str) -> tuple[int, int, int, ReplacementKind]:
    """A value's number, the bits of its changes, and the turn and the kind of this one."""
    number, seed = map(int, change.split(":")[1:])
    rest, kind = divmod(seed, len(KINDS))
    bits, turn = divmod(rest, TURNS)
    return number, bits, turn, KINDS[kind]


def changed(source: TestSource, test: Function, change: str) -> Edit | None:
    """The edit that such a name means; None where that is impossible."""
    values, (number, bits, turn, kind) = checked_values(source, test), _decoded(change)
    if number >= len(values):
        return None
    value = values[number]
    edit = replaced(source, test, value, random.Random(bits), kind, max(0, turn + 1 - len(KINDS)))
    if edit is None or value.form in ("parameter", "row", "attribute"):
        return edit
    return in_one_round(source, test, value.node, edit, bits + turn)
