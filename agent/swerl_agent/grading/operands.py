"""Expressions that a check compares although they are not sides of its comparison.

Examples are operands of differences, middle parts of chains and arguments of counts.

Guarantees: only syntax is read. A tolerance is small only where all of it is written as constants in the call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .indirect_checks import name_of

_CLOSE = re.compile(r"(?i)close|almost|approx")
_DISTANCES = ("abs", "fabs", "norm")
_MEASURING = (*_DISTANCES, "max", "sum", "float", "round", "sqrt")  # of a difference
_PATTERNS = ("match", "fullmatch", "search")
_COUNTING = ("count", "index", "find", "rfind")  # by comparisons of the elements themselves
_CONSTRUCTORS = ("approx", "set", "frozenset", "list", "tuple", "array", "Decimal", "Fraction", "date", "datetime")
_SMALL = 0.02  # a tolerance, absolute or relative, that a change by a tenth and by one exceeds twice
_FEWEST_DIGITS = 3  # that agree where such a tolerance is given in digits
_DIGITS = ("places", "decimal", "significant")
_ORDER = ast.Lt | ast.LtE | ast.Gt | ast.GtE
Pair = tuple[ast.expr, ast.expr]


def comparisons(test: ast.expr) -> Iterator[ast.Compare | ast.Call | ast.UnaryOp]:
    """Comparisons, predicates and negations that must all hold for an expression to be true."""
    parts: list[ast.expr] = []
    if isinstance(test, ast.Compare):
        yield test
        parts = _known_true(test)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        parts = test.values
    elif isinstance(test, ast.GeneratorExp | ast.ListComp):
        parts = [test.elt]
    elif isinstance(test, ast.Call) and name_of(test.func) in ("all", "bool"):
        parts = test.args or ([test.func.value] if isinstance(test.func, ast.Attribute) else [])
    elif isinstance(test, ast.Call) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        yield test
    for part in parts:
        yield from comparisons(part)


def _known_true(test: ast.Compare) -> list[ast.expr]:
    """What `(...) is True` and `... is not None` say of an expression."""
    right = test.comparators[0]
    if len(test.ops) > 1 or not isinstance(right, ast.Constant):
        return []
    match test.ops[0]:
        case ast.Is() | ast.Eq() if right.value is True:
            return [test.left]
        case ast.IsNot() if right.value is None and is_pattern(test.left):
            return [test.left]
    return []


def is_pattern(node: ast.expr) -> bool:
    """Whether it is a call such as `re.match('a.*', x)`."""
    function = node.func if isinstance(node, ast.Call) else None
    module = function.value if isinstance(function, ast.Attribute) else None
    return name_of(module or node) in ("re", "regex") and name_of(function or node) in _PATTERNS


def pairs(test: ast.Compare) -> Iterator[tuple[ast.expr, ast.cmpop, ast.expr]]:
    """Each two neighbours of a chain of comparisons, and what is between them."""
    yield from zip([test.left, *test.comparators], test.ops, test.comparators, strict=False)


def is_order(operator: ast.cmpop) -> bool:
    """Whether it is one of `<`, `<=`, `>` and `>=`."""
    return isinstance(operator, _ORDER)


def equal_if_false(test: ast.expr) -> list[Pair]:
    """Two values that must be equal for an expression to be false: those of `!=` and of `set ^ set`."""
    if isinstance(test, ast.BinOp) and isinstance(test.op, ast.BitXor):
        return [(test.left, test.right)]
    return _sides(test, ast.NotEq)


def is_distance(side: ast.expr) -> bool:
    """Whether a side of a comparison is an absolute value: where it may be small at most, only near values do."""
    return any(isinstance(each, ast.Call) and name_of(each.func) in _DISTANCES for each in ast.walk(side))


def differences(side: ast.expr) -> Iterator[Pair]:
    """Two values whose difference or ratio a side of a comparison is, as in `abs(x - 5) < 0.1`."""
    if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Sub | ast.Div | ast.BitXor):
        yield side.left, side.right
        yield from differences(side.left)
    elif isinstance(side, ast.Call) and name_of(side.func) in _MEASURING:
        inner = side.func.value if isinstance(side.func, ast.Attribute) else None
        for part in (*side.args[:1], *([inner] if isinstance(inner, ast.BinOp | ast.Call) else [])):
            yield from differences(part)


def counted(side: ast.expr) -> list[ast.expr]:
    """What is counted or found, as 5 in `x.count(5) == 1`."""
    if isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr in _COUNTING:
        return side.args[:1]
    return []


def is_close(call: ast.expr, values: int) -> bool:
    """Whether a call compares its first `values` arguments with a tolerance, and with a small one."""
    if not isinstance(call, ast.Call) or not _CLOSE.search(name_of(call.func)) or len(call.args) < values:
        return False
    third = "places" if "almost" in name_of(call.func).lower() else ""
    given = [(third, each) for each in call.args[values:]] + [(word.arg or "", word.value) for word in call.keywords]
    return all(_is_small(name, value) for name, value in given)


def _is_small(name: str, value: ast.expr) -> bool:
    number = value.value if isinstance(value, ast.Constant) else None
    if isinstance(number, bool | str):  # a message, or whether NaN equals itself
        return True
    return isinstance(number, int | float) and (number >= _FEWEST_DIGITS if name in _DIGITS else number <= _SMALL)


def compared_by_hand(node: ast.If) -> list[Pair]:
    """Two values that an `if` compares, where the test fails if they differ."""
    test = node.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _sides(test.operand, ast.Eq) if _fails(node.body) else []
    return (equal_if_false(test) if _fails(node.body) else []) or (_sides(test, ast.Eq) if _fails(node.orelse) else [])


def _sides(test: ast.expr, operator: type[ast.cmpop]) -> list[Pair]:
    """Those of a comparison of two values with this operator."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], operator):
        return [(test.left, test.comparators[0])]
    return []


def _fails(body: list[ast.stmt]) -> bool:
    last = body[-1] if body else None
    return isinstance(last, ast.Raise) or (
        isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and name_of(last.value.func) == "fail"
    )


def _parts_of_a_value(call: ast.Call) -> list[ast.expr]:
    """Arguments of a call that makes a value by its name, as `Point(1, y=2)`; those of functions may be tolerances."""
    name = name_of(call.func)
    if name[:1].isupper() and not name.isupper():
        return [*call.args, *(word.value for word in call.keywords)]
    return call.args if name in _CONSTRUCTORS else []


def constants_of(side: ast.expr, *, calls: bool) -> Iterator[ast.Constant]:
    """Constants of a value, those in containers and, with `calls`, in calls that make a value, too."""
    parts: list[ast.expr] = []
    if isinstance(side, ast.Constant):
        if isinstance(side.value, bool | int | float | str | bytes) and side.lineno == side.end_lineno:
            yield side
    elif isinstance(side, ast.UnaryOp):
        parts = [side.operand]
    elif isinstance(side, ast.List | ast.Tuple | ast.Set):
        parts = side.elts
    elif isinstance(side, ast.Dict):
        parts = side.values
    elif isinstance(side, ast.Call) and calls:
        parts = _parts_of_a_value(side)
    for each in parts:
        yield from constants_of(each, calls=calls)


def own_attribute(node: ast.AST, first: str) -> str:
    """The name of an attribute of the variable `first`, '' of anything else."""
    if first in ("self", "cls") and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.value.id == first else ""
    return ""
