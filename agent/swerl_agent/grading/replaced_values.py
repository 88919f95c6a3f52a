"""Other values in the place of those that a test checks.

A constant is replaced in the text. For any other expression the replacement computes another value of the same type
while the test runs.

Guarantees: a number changes by more than a thousand, so that no tolerance and no other element of a result covers it. A
value that is compared without a tolerance changes also to one near it, and to a plausible one: another constant of the
test, or of its file. A change has a name, and the same name means the same change in every run.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

from .alterations import Edit, Function, TestSource
from .checked_values import OPPOSITES, CheckedValue, checked_values

Kind = Literal["far", "near", "plausible"]
KINDS: tuple[Kind, ...] = ("far", "near", "plausible")
MAX_VALUES = 8  # of one test that are tried
MORE_PLAUSIBLE = 2  # values, beside one of each kind, where a test has few values
MAX_CONSTANT = 80  # characters of a constant that may take the place of another
MAX_CONSTANTS = 20  # of a test or a file
_WITHOUT_TOLERANCE = ("exact", "equal", "rounded")
_FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
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
_PLAUSIBLE = (
    "(lambda v: next((each for each in ({constants}) if type(each) is type(v) and each != v), object()))({text})"
)


def replaced(
    source: TestSource, test: Function, value: CheckedValue, rng: random.Random, kind: Kind = "far"
) -> Edit | None:
    """Another value in the place of a checked one of a test; `kind` holds for values compared without a tolerance. None
    where that is impossible."""
    node, number, word = value.node, rng.randrange(1009, 9973), f"{rng.getrandbits(24):06x}"
    start = source.index(node.lineno, node.col_offset)
    end = source.index(node.end_lineno or node.lineno, node.end_col_offset or 0)
    text = source.text[start:end]
    constants = _constants(source, test, rng)
    match value.form:
        case "constant" | "exact" | "rounded":
            own = _literal(node, text)
            if value.form == "rounded" and isinstance(own, int | float):  # far from it by all tolerances
                constants = [
                    each for each in constants if isinstance(each, int | float) and abs(each - own) > abs(own) / 100
                ]
                kind = "far" if kind == "near" else kind
            other = _other_constant(own, number, word, "far" if value.form == "constant" else kind, constants)
            return None if other is None else Edit(start, end, repr(other))
        case "order":
            return _flipped(source, node)
        case "exception":
            return Edit(start, end, f"type('E{word}', (Warning,), {{}})")
        case "opposite":
            return Edit(start, end, f"(None if ({text}) else {number})")
        case "object":
            return Edit(start, end, f"(({text}), object())[1]")
        case "container":
            others = "".join(f", {each!r}" for each in _outside(node, constants))
            return Edit(start, end, f"(({text}), [object(){others}])[1]")
        case "none":
            return Edit(start, end, f"(({text}), None)[1]")
        case "equal" if kind == "near":
            return Edit(start, end, f"({_NEAR.format(number=number, text=text)})")
        case "equal" if kind == "plausible":
            listed = "".join(f"{each!r}, " for each in constants)
            return Edit(start, end, f"({_PLAUSIBLE.format(constants=listed, text=text)})") if constants else None
    computed = _OTHER.format(number=number, word=word, text=text)
    return _rebound(source, test, f"{text} = {computed}") if value.form == "parameter" else Edit(start, end, computed)


def _constants(source: TestSource, test: Function, rng: random.Random) -> list[Any]:
    """Numbers and texts of a test, then those of its file."""
    parts = [_constants_of(test), _constants_of(source.tree)]
    return list({(type(each), each): each for part in parts for each in rng.sample(part, len(part))}.values())


@lru_cache(maxsize=64)
def _constants_of(tree: ast.AST) -> list[Any]:
    """Short ones, each once, without statements that are texts."""
    texts = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    constants = [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in texts]
    short = [each for each in constants if type(each) in (int, float, str, bytes) and len(repr(each)) <= MAX_CONSTANT]
    return list({(type(each), each): each for each in short}.values())[:MAX_CONSTANTS]


def _outside(container: ast.expr, constants: Sequence[Any]) -> list[Any]:
    """Those of the constants that a literal container does not hold; none where its elements are not known."""
    try:
        held = ast.literal_eval(container)
    except ValueError:
        return []
    return [each for each in constants if each not in held] if isinstance(held, list | tuple | set) else []


def _rebound(source: TestSource, test: Function, statement: str) -> Edit | None:
    """A statement at a test's beginning, after its docstring."""
    first = next((each for each in test.body if not _is_text(each)), None)
    if first is None or getattr(first, "decorator_list", []):
        return None
    at = source.index(first.lineno, first.col_offset)
    return Edit(at, at, f"{statement}\n{source.indentation(first)}" if first.lineno > test.lineno else f"{statement}; ")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _literal(node: ast.expr, text: str) -> Any:
    """The value of a constant; None for a part of a longer literal, as in an f-string."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(node, ast.Constant) and value == node.value else None


def _other_constant(value: Any, number: int, word: str, kind: Kind, constants: Sequence[Any]) -> object:
    """Another one in the place of a constant, None where there is none."""
    if value is None or kind == "far":
        return None if value is None else _other(value, number, word)
    if kind == "near":
        return _near(value, number, word)
    plausible = next((each for each in constants if type(each) is type(value) and each != value), None)
    return _transposed(value, number) if plausible is None and isinstance(value, str | bytes) else plausible


def _transposed(value: Any, number: int) -> object:
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
    a value that is compared without a tolerance: where there are few values, each such one has several kinds.
    """
    drawn = [(number, _kinds(values[number], rng)) for number in rng.sample(range(len(values)), len(values))]
    named = [
        f"value:{number}:{rng.getrandbits(24) * len(KINDS) + KINDS.index(kinds[turn])}"
        for turn in range(len(KINDS) + MORE_PLAUSIBLE)
        for number, kinds in drawn
        if turn == 0 or _has_kinds(values[number])
    ]
    yield from named[:MAX_VALUES]


def _kinds(value: CheckedValue, rng: random.Random) -> list[Kind]:
    return [*rng.sample(KINDS, len(KINDS)), *KINDS[-1:] * MORE_PLAUSIBLE] if _has_kinds(value) else ["far"]


def _has_kinds(value: CheckedValue) -> bool:
    return value.form in _WITHOUT_TOLERANCE


def is_far(change: str) -> bool:
    """Whether such a change is to a value that neither tolerance nor counting reaches."""
    return KINDS[int(change.rpartition(":")[2]) % len(KINDS)] == "far"


def changed(source: TestSource, test: Function, change: str) -> Edit | None:
    """The edit that such a name means; None where that is impossible."""
    values, (_, number, seed) = checked_values(source, test), change.split(":")
    if int(number) >= len(values):
        return None
    return replaced(source, test, values[int(number)], random.Random(int(seed)), KINDS[int(seed) % len(KINDS)])
