"""Values that a test checks, in whose place another one (`replaced_values`) must make it fail.

Checks are `assert` statements, calls of assertion functions by their names and expected exceptions. Calls of checking
helpers of the tests, also of libraries of assertions, are checks too (`indirect_checks`). Values inside the sides of a
comparison count as well (`operands`), and those that `parametrize` gives (`parameter_rows`).

Guarantees: every value lies in the test's own body; whether the test fails without it is for the reference fix to show.
No value is taken with which another correct fix might still pass. So inputs of the code under test stay, and so do
checks under a condition. Values of alternatives (`or`, `any`), filters, negations and bounds stay, too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from . import indirect_checks as indirect
from . import operands
from .alterations import Function, TestSource
from .indirect_checks import name_of
from .parameter_rows import is_parametrized

Form = Literal[
    "constant", "exact", "rounded", "other", "equal", "opposite", "order", "bound", "exception", "parameter",
    "row", "attribute", "object", "container", "none"]  # fmt: skip
MAX_FOUND = 200  # values of one test among which those that are tried are drawn
_ASSERTS = re.compile(r"assert", re.IGNORECASE)
_EXCEPTIONS = re.compile(r"(?:^|[a-z_])(?:[rR]aises|[wW]arns)")
_SINGLE = ("assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone")  # the second argument is a message
_BOUNDS = re.compile(r"(?:^|_)not(?:_|$)|Not(?=[A-Z]|$)|[dD]iffer|[gG]reater|[lL]ess")  # hold for many values
_TWO_SIDES = re.compile(r"(?i)equal|same|close|almost|contain|redirect|regex|match|call|await|assert_?(?:is|items|eq)$")
_COMPARING = re.compile(
    r"(?i)assert.*(?:equal|same|close|almost|contain|redirect|match|regex)|assert_(?:called|any_|has_|await)"
    r"|assert_?(?:is|items|eq|true|false|in|not_?in|less|greater)$"
)
_EQUALITY = re.compile(r"(?i)^assert_?(?:count|list|tuple|dict|set|sequence)?_?equals?$")  # without a tolerance
_PREDICATES = re.compile(r"(?i)close|equal|same|identical|starts_?with|ends_?with|(?:^|_)eq(?:__)?$")
_EXACT = re.compile(r"assert_(?:called|any_|has_|await)|assertNumQueries")  # one argument, which is the expected one
_COUNTED = re.compile(r"contain|redirect", re.IGNORECASE)  # the third argument is a number, too
OPPOSITES = {  # methods of unittest, and those that fail where they pass
    "assertGreater": "assertLessEqual", "assertLessEqual": "assertGreater",
    "assertLess": "assertGreaterEqual", "assertGreaterEqual": "assertLess"}  # fmt: skip
_MEASURES = ("len", "sorted", "list", "tuple", "set", "str", "repr", "type", "isinstance", "min", "max", "sum")
_NAMESPACES = ("locals", "vars", "eval", "exec")  # may use every variable
_CONDITIONAL = (
    ast.If, ast.While, ast.Match, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.FunctionDef,
    ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)  # fmt: skip


@dataclass(frozen=True)
class CheckedValue:
    """An expression of a test, and how another value takes its place."""

    node: ast.expr
    form: Form


def checked_values(source: TestSource, node: Function) -> list[CheckedValue]:
    """What a test's checks compare."""
    certain = (part for function in (node, *indirect.called_functions(node)) for part in _certain(function))
    found = [value for each in certain for value in _checked_by(source, each)]
    if not found:
        possible = list(indirect.possible_checks(node))
        found = [value for each in possible for value in (*_checked_by(source, each), *_kept_result(each))]
    return _unique([*found, *_bound(node, found)])[:MAX_FOUND]


def _checked_by(source: TestSource, node: ast.AST) -> list[CheckedValue]:
    """What one statement or call checks."""
    if isinstance(node, ast.Assert):
        return _compared(node.test)
    if isinstance(node, ast.If):
        return _equal(operands.compared_by_hand(node))
    if isinstance(node, ast.Call) and _EXCEPTIONS.search(name_of(node.func)):
        match = _constants([*node.args[1:2], *(word.value for word in node.keywords if word.arg == "match")])
        return [*(CheckedValue(each, "exception") for each in node.args[:1]), *match]
    if isinstance(node, ast.Call) and _ASSERTS.search(name_of(node.func)):
        return _arguments(node)
    return _helper_argument(source, node.value) if isinstance(node, ast.Expr) else []


def _kept_result(node: ast.AST) -> list[CheckedValue]:
    """Values of a comparison for equality wherever it is, and of a pattern."""
    if isinstance(node, ast.MatchValue):
        return _constants([node.value])
    kinds = ast.Eq if isinstance(node, ast.Compare) else ast.NotEq
    parts = [node, *getattr(node, "ifs", []), getattr(node, "operand", node)]
    compared = [each for each in parts if isinstance(each, ast.Compare) and isinstance(each.ops[0], kinds)]
    return [value for each in compared[:1] for value in _one_of(each.left, each.comparators[0], exact=True)]


def _certain(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run whenever a function runs to its end."""
    children = [*node.body, *node.finalbody] if isinstance(node, ast.Try) else ast.iter_child_nodes(node)
    for child in children:
        if isinstance(child, ast.If):
            yield child
        elif not isinstance(child, _CONDITIONAL):
            yield child
            yield from _certain(child)


def _unique(found: list[CheckedValue]) -> list[CheckedValue]:
    usable = [each for each in found if not isinstance(each.node, ast.Starred)]
    by_place = {(each.node.lineno, each.node.col_offset, each.form): each for each in usable}
    return [by_place[place] for place in sorted(by_place)]


def _bound(node: Function, values: list[CheckedValue]) -> Iterator[CheckedValue]:
    """Where names among the values get theirs, if only checks use them: code may change variables of its caller."""
    used = Counter(each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    if any(name in used for name in _NAMESPACES):
        return
    checked = Counter(name for each in ast.walk(node) for name in _names_of_check(each))
    named = [each.node for each in values if each.form in ("other", "equal") and isinstance(each.node, ast.Name)]
    names = {each.id: each for each in named if used[each.id] in (1, checked[each.id])}
    for name in [each.arg for each in node.args.args if each.arg in names]:
        yield from [CheckedValue(names[name], "row")] if is_parametrized(node, name) else []
        yield CheckedValue(names[name], "parameter")
    yield from _bound_attributes(node, values)
    for each in _certain(node):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id in names:
            yield from _constants([each.value])


def _bound_attributes(node: Function, values: list[CheckedValue]) -> Iterator[CheckedValue]:
    """Attributes of the test's object that only its checks use."""
    first = node.args.args[0].arg if node.args.args else ""
    used = Counter(name for each in ast.walk(node) if (name := operands.own_attribute(each, first)))
    named = {operands.own_attribute(each.node, first): each.node for each in values if each.form in ("other", "equal")}
    sides = Counter(operands.own_attribute(each.node, first) for each in values if each.form in ("other", "equal"))
    yield from (CheckedValue(named[name], "attribute") for name in named if name and sides[name] == used[name])


def _names_of_check(node: ast.AST) -> Iterator[str]:
    """Variables that a check compares, but for those that other functions than builtins get."""
    checks: list[ast.AST] = [node.test] if isinstance(node, ast.Assert) else []
    if isinstance(node, ast.Call) and _COMPARING.search(name := name_of(node.func)) and not _EXCEPTIONS.search(name):
        checks = list(node.args)
    while checks:
        each = checks.pop()
        if isinstance(each, ast.Name):
            yield each.id
        elif not isinstance(each, ast.Call) or name_of(each.func) in _MEASURES:
            checks += ast.iter_child_nodes(each)


def _compared(test: ast.expr) -> list[CheckedValue]:
    """Values of the comparisons and predicates that must all hold for an expression to be true."""
    found: list[CheckedValue] = []
    for each in operands.comparisons(test):
        if isinstance(each, ast.UnaryOp):
            found += [*_equal(operands.equal_if_false(each.operand)), *_negated_order(each.operand)]
        elif isinstance(each, ast.Call):
            found += _of_predicate(each)
        elif len(each.ops) == 1:
            found += _of_pair(each.left, each.ops[0], each.comparators[0], CheckedValue(each, "order"))
        else:
            found += [
                value for pair in operands.pairs(each) for value in _of_pair(*pair, CheckedValue(pair[2], "bound"))
            ]
    return found


def _of_pair(left: ast.expr, operator: ast.cmpop, right: ast.expr, order: CheckedValue) -> list[CheckedValue]:
    """Values of two that are compared, with `order` where one must be greater."""
    if isinstance(operator, ast.In):
        return _element(left, right)
    if isinstance(operator, ast.Is):  # no object can be another one
        return _constants([right], calls=False)
    equal = isinstance(operator, ast.Eq)
    found = _one_of(left, right, exact=True) if equal else [order] if operands.is_order(operator) else []
    if not found:
        return []
    return [*found, *(value for side in (left, right) for value in _inside(side, equal=equal))]


def _negated_order(test: ast.expr) -> list[CheckedValue]:
    order = isinstance(test, ast.Compare) and len(test.ops) == 1 and operands.is_order(test.ops[0])
    return [CheckedValue(test, "order")] if order else []


def _inside(side: ast.expr, *, equal: bool) -> list[CheckedValue]:
    """Values that a side of a comparison compares itself: by a count, a distance or, for equality, a difference."""
    found = operands.differences(side) if equal or operands.is_distance(side) else []
    return [*(value for pair in found for value in _one_of(*pair)), *_constants(operands.counted(side))]


def _equal(compared: list[operands.Pair]) -> list[CheckedValue]:
    return [value for pair in compared for value in _one_of(*pair, exact=True)]


def _of_predicate(call: ast.Call) -> list[CheckedValue]:
    """Values of a call that by its name is true where two values match: both arguments, or an object and one."""
    name, arguments = name_of(call.func), call.args
    if operands.is_pattern(call):
        return [each for each in _constants(arguments[:1]) if "|" not in str(getattr(each.node, "value", ""))]
    if not arguments or not _PREDICATES.search(name) or _BOUNDS.search(name):
        return []
    if len(arguments) > 1:
        return _rounded_if(operands.is_close(call, 2), _one_of(arguments[0], arguments[1]))
    method = isinstance(call.func, ast.Attribute)
    return (_constants(arguments) or [CheckedValue(arguments[0], "other")]) if method else []


def _element(value: ast.expr, container: ast.expr) -> list[CheckedValue]:
    """What must be in a container, which may contain more; without a constant also the container."""
    found = [CheckedValue(value, "object")] if _varies(container) else []
    return _constants([value]) or [*found, *([CheckedValue(container, "container")] if _varies(value) else [])]


def _varies(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Call | ast.Name) for each in ast.walk(value))


def _one_of(left: ast.expr, right: ast.expr, *, exact: bool = False) -> list[CheckedValue]:
    """Of two values that must be equal, the expected one: a constant, else what is not computed, else both."""
    literal = next((found for side in (right, left) if (found := _constants([side], calls=False))), [])
    if literal:
        return _compared_as("exact", literal) if exact else literal
    plain = [side for side in (right, left) if not any(isinstance(each, ast.Call) for each in ast.walk(side))]
    others = [CheckedValue(side, "equal" if exact else "other") for side in plain[:1] or (right, left)]
    return [*_rounded_if(operands.is_close(right, 1), _constants([right, left])), *others]


def _rounded_if(close: bool, values: list[CheckedValue]) -> list[CheckedValue]:
    """Constants of a comparison with a tolerance, which may be known to be small."""
    return [CheckedValue(each.node, "rounded") if close and each.form == "constant" else each for each in values]


def _compared_as(form: Form, values: list[CheckedValue]) -> list[CheckedValue]:
    """Constants that are compared without a tolerance (`exact`), or with a small one (`rounded`)."""
    return [CheckedValue(each.node, form) for each in values]


def _arguments(call: ast.Call) -> list[CheckedValue]:
    """Values in the arguments of a check."""
    name, arguments = name_of(call.func), call.args
    if len(arguments) == 1 or name in _SINGLE:
        return _argument(name, arguments[0]) if arguments else []
    if name in OPPOSITES and isinstance(call.func, ast.Attribute):
        return [
            CheckedValue(call.func, "order"),
            *(value for side in arguments[:2] for value in _inside(side, equal=False)),
        ]
    if not arguments or _BOUNDS.search(name):
        return []
    if name in ("assertIn", "assert_in"):
        return _element(arguments[0], arguments[1])
    if not _TWO_SIDES.search(name):
        return _last_argument(call)
    sides = arguments[:2]
    constants = _constants(sides, calls=False)
    if not constants and _COUNTED.search(name):
        constants = _constants(arguments[2:3], calls=False)
    equality = bool(_EQUALITY.search(name))
    found = (_compared_as("exact", constants) if equality else constants) or _one_of(*sides, exact=equality)
    inner = [value for side in sides for value in _inside(side, equal=equality)]
    return [*_rounded_if(operands.is_close(call, 2), found), *inner]


def _argument(name: str, argument: ast.expr) -> list[CheckedValue]:
    """Values in the only argument of a check: a constant may be what the code under test gets."""
    if name == "assertIsNotNone":
        return [CheckedValue(argument, "none")]
    if _EXACT.search(name):
        return _constants([argument]) or [CheckedValue(argument, "opposite")]
    compared = _equal(operands.equal_if_false(argument)) if name == "assertFalse" else _compared(argument)
    return [*compared, *([] if isinstance(argument, ast.Constant) else [CheckedValue(argument, "opposite")])]


def _helper_argument(source: TestSource, value: ast.expr) -> list[CheckedValue]:
    """The last argument of a checking helper of the tests, which is the expected one as a rule."""
    if not isinstance(call := value.value if isinstance(value, ast.Await) else value, ast.Call):
        return []
    if values := indirect.matched_values(call) or indirect.helper_values(source, call):
        constants, tolerant = _constants(values, calls=False), indirect.is_tolerant(call)
        found = constants if tolerant else _compared_as("exact", constants)
        return found or [CheckedValue(values[-1], "other" if tolerant else "equal")]
    if not call.args or _ASSERTS.search(name_of(call.func)) or not indirect.is_helper(source, call):
        return []
    if len(call.args) == 1:
        return [] if isinstance(call.args[0], ast.Constant) else [CheckedValue(call.args[0], "opposite")]
    return _last_argument(call)


def _last_argument(call: ast.Call) -> list[CheckedValue]:
    return _constants(call.args[-1:], calls=False) or [CheckedValue(call.args[-1], "other")]


def _constants(sides: list[ast.expr], *, calls: bool = True) -> list[CheckedValue]:
    """The constants of each, those in containers, too."""
    return [CheckedValue(each, "constant") for side in sides for each in operands.constants_of(side, calls=calls)]
