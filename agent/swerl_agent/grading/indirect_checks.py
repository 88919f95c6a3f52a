"""Checks that a test makes by way of its own helpers, of functions within it and of libraries of assertions.

Where a test has no other checks, also comparisons whose result it keeps, and checks under conditions of its own.

Guarantees: an argument counts only in two places. One is a helper in the same file that compares the parameter. The
other is a call of an assertion library whose result nothing reads. A function within a test counts only if the test
calls it; a condition only if no called code decides it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from .alterations import Function, TestSource

# What begins a chain of an assertion library, as in `assert_that(x).is_equal_to(5)` or `x.should.equal(5)`.
_SUBJECT = re.compile(r"(?i)^(?:should|must|expect\w*|assert\w*|that|verify\w*|check\w*|ensure\w*)$")
_MATCHER = re.compile(
    r"(?i)^(?:should_|to_|is_|has_|have_|be_)?(?:almost_|count_)?(?:equals?(?:_to)?|eql?|same(?:_as)?|identical(?:_to)?|be"
    r"|is|contains?(?:_only|_exactly|_string)?|match(?:es)?(?:_regex)?|len(?:gth)?(?:_of)?|starts_?with|ends_?with|in|has"
    r"|close_to|look_like)$"
)
_TAKES_MATCHERS = re.compile(r"(?i)^(?:assert_?that|that|to|should|must|expect\w*|verify\w*)$")
_NEGATION = re.compile(r"(?:^|_)not(?:_|$)|Not(?=[A-Z]|$)")
_TOLERANT = re.compile(r"(?i)almost|close|contain|match|regex|length|len|start|end|^in$|^has$|look")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ExceptHandler)
_RUNNERS = ("run", "run_sync", "run_until_complete", "gather", "wait_for", "submit")  # of functions that they get
_CHECK = re.compile(r"(?i)assert|equal|same|expect")
_NAMED_CHECKS = re.compile(r"check|verif|expect|compar|equal|same|ensure|must|should", re.IGNORECASE)
_OF_TESTS = re.compile(
    r"(?:^|[._])(?:tests?|test(?:ing|utils?|helpers?|tools?|lib)|helpers?|utils?|common|support|conftest|fixtures?|checks?)"
    r"(?:[._\d]|$)"
)


def called_functions(node: ast.AST, called: frozenset[str] = frozenset()) -> Iterator[Function]:
    """Functions that a test defines at its top and calls or runs, and those of them in turn."""
    body: list[ast.stmt] = getattr(node, "body", [])
    own = [each for each in body if isinstance(each, Function)]
    others = [each for each in body if not isinstance(each, Function | ast.ClassDef)]
    called |= frozenset(name for each in others for name in _called(each))
    for each in own:
        if each.name in called and not each.decorator_list:
            yield each
            yield from called_functions(each, called)


def possible_checks(node: Function) -> Iterator[ast.AST]:
    """Nodes of a test that run if no handler of an exception does, and if its conditions hold as they did before.

    Without alternatives, negated equalities and functions within.
    """
    decided = {name for each in ast.walk(node) if isinstance(each, ast.Assign) and _calls(each.value)
               for target in each.targets for name in _loaded(target)}  # fmt: skip
    called = set(_called(node))
    left: list[ast.AST] = list(node.body)
    while left:
        each = left.pop()
        yield each
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Lambda):
            left += [each.value.body for target in each.targets if called.intersection(_loaded(target))]
        if isinstance(each, ast.If | ast.While | ast.IfExp):
            if not _calls(each.test) and not decided.intersection(_loaded(each.test)):
                left += [part for part in ast.iter_child_nodes(each) if part is not each.test]
        elif isinstance(each, ast.Try):
            left += [*each.body, *each.orelse, *each.finalbody]
        elif not _is_opaque(each):
            left += ast.iter_child_nodes(each)


def _is_opaque(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not (isinstance(node.operand, ast.Compare) and isinstance(node.operand.ops[0], ast.NotEq))
    alternative = isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
    return alternative or (isinstance(node, ast.Call) and name_of(node.func) == "any") or isinstance(node, _SCOPES)


def _calls(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call | ast.Await) for each in ast.walk(node))


def _loaded(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _called(statement: ast.AST) -> Iterator[str]:
    for each in ast.walk(statement):
        if not isinstance(each, ast.Call):
            continue
        if isinstance(each.func, ast.Name):
            yield each.func.id
        if name_of(each.func) in _RUNNERS:
            yield from (argument.id for argument in each.args if isinstance(argument, ast.Name))


def is_helper(source: TestSource, call: ast.Call) -> bool:
    """Whether a call is, by its name, one of a checking helper of the tests."""
    function = call.func
    if not _NAMED_CHECKS.search(name_of(function)):
        return False
    if isinstance(function, ast.Attribute):
        return getattr(function.value, "id", "") in ("self", "cls")
    return isinstance(function, ast.Name) and function.id in _helpers(source)


@lru_cache(maxsize=8)
def _helpers(source: TestSource) -> set[str]:
    """Functions that the test file defines, or imports from what by its name belongs to tests."""
    found = {names.function for names in source.functions if not names.owner}
    for each in ast.walk(source.tree):
        if isinstance(each, ast.ImportFrom) and (each.level or _OF_TESTS.search(each.module or "")):
            found |= {alias.asname or alias.name for alias in each.names}
    return found


def is_tolerant(call: ast.Call) -> bool:
    """Whether a check of an assertion library may hold for several values."""
    names = [name_of(each.func) for each in (call, *call.args) if isinstance(each, ast.Call)]
    return any(map(_TOLERANT.search, names))


def matched_values(call: ast.Call) -> list[ast.expr]:
    """Arguments that a call of an assertion library compares with what its chain begins with, or with each other."""
    names = [each.attr for each in ast.walk(call.func) if isinstance(each, ast.Attribute)]
    names += [each.id for each in ast.walk(call.func) if isinstance(each, ast.Name)]
    if any(map(_NEGATION.search, names)) or not any(map(_SUBJECT.match, names)):
        return []
    if _TAKES_MATCHERS.match(name_of(call.func)):  # as in `expect(x).to(equal(5))`
        matchers = [each for each in call.args if isinstance(each, ast.Call) and _MATCHER.match(name_of(each.func))]
        return [value for each in matchers for value in each.args]
    return call.args[:2] if isinstance(call.func, ast.Attribute) and _MATCHER.match(call.func.attr) else []


def helper_values(source: TestSource, call: ast.Call) -> list[ast.expr]:
    """Arguments that a helper in the test's file compares as they are."""
    name = name_of(call.func)
    own = isinstance(call.func, ast.Attribute) and name_of(call.func.value) in ("self", "cls")
    if not own and not isinstance(call.func, ast.Name):
        return []
    functions = source.functions.items()
    found = [node for names, (_, node) in functions if names.function == name and bool(names.owner) == own]
    if len(found) != 1 or found[0].args.posonlyargs:
        return []
    parameters = [each.arg for each in found[0].args.args]
    if own and parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    compared = _compared_parameters(found[0])
    values = dict(zip(parameters, call.args, strict=False)) | {word.arg or "": word.value for word in call.keywords}
    return [value for parameter, value in values.items() if parameter in compared]


def _compared_parameters(helper: Function) -> set[str]:
    """Parameters of a helper that only its checks read, as one side of a comparison."""
    parameters = {each.arg for each in (*helper.args.args, *helper.args.kwonlyargs)}
    read = [each.id for each in ast.walk(helper) if isinstance(each, ast.Name) and each.id in parameters]
    sides = [each.id for each in _sides(helper) if isinstance(each, ast.Name)]
    return {name for name in parameters if sides.count(name) == read.count(name) > 0}


def _sides(helper: Function) -> Iterator[ast.expr]:
    """What `assert` statements and assertion functions compare for equality."""
    for each in ast.walk(helper):
        test = each.test if isinstance(each, ast.Assert) else None
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            yield from (test.left, *test.comparators)
        elif isinstance(each, ast.Call) and _CHECK.search(name := name_of(each.func)) and not _NEGATION.search(name):
            yield from each.args[:2]


def name_of(function: ast.expr) -> str:
    """The last part of a name such as `self.assertEqual`; '' of another expression."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
