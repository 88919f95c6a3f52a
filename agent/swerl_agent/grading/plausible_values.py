"""Values that take the place of a checked one because an object may equal them without being right.

Guarantees: what the checked call gets comes first, because code under test knows it; then come the other constants of
the test, then those of its file. Only expressions that a check or an assignment before it reads are evaluated.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .alterations import Function, TestSource, holds, own_nodes

MAX_CONSTANT = 80  # characters of a constant that may take the place of another
MAX_CONSTANTS = 20  # of a test or a file
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CHOSEN = (
    "((lambda v, *others: (lambda found: found[{turn} % len(found)] if found else {lone})(list(dict.fromkeys("
    "each for each in others if type(each) is type(v) and isinstance(v, (int, float, str, bytes)) and each != v"
    "))))({text}, {listed}))"
)
_OUTSIDE = (
    "((lambda held, *others: [object(), *(each for each in others"
    " if isinstance(held, (list, tuple, set, frozenset, dict, range)) and isinstance(each, (int, float, str, bytes))"
    " and each not in held)])({text}, {listed}))"
)


@dataclass(frozen=True)
class PlausibleValues:
    """Names of variables that a checked call gets, and constants: those that it gets first."""

    names: tuple[str, ...]
    constants: tuple[Any, ...]

    def other_than(self, text: str, turn: int, lone: str | bytes | None = None) -> str:
        """An expression: one of those with the type of `text`'s value that differ from it, another for each turn; where
        there is none, `lone` or an object equal to no other."""
        instead = "object()" if lone is None else repr(lone)
        return _CHOSEN.format(turn=turn, text=text, lone=instead, listed=self._listed())

    def outside(self, text: str) -> str:
        """An expression: a list of those that the container `text` does not hold."""
        return _OUTSIDE.format(text=text, listed=self._listed())

    def _listed(self) -> str:
        return ", ".join([*self.names, *map(repr, self.constants)])


def plausible_values(source: TestSource, test: Function, node: ast.expr, rng: random.Random) -> PlausibleValues:
    """Those for the place of `node`, which a test checks."""
    names, got = _arguments(test, node)
    parts = [got, _constants_of(test), _constants_of(source.tree)]
    constants = {(type(each), each): each for part in parts for each in rng.sample(part, len(part))}
    return PlausibleValues(tuple(rng.sample(names, len(names))), tuple(constants.values()))


def _arguments(test: Function, node: ast.expr) -> tuple[list[str], list[Any]]:
    """Variables and constants among the arguments of calls whose results are compared with `node`."""
    roots = [each for each in ast.iter_child_nodes(_statement(test, node)) if not isinstance(each, ast.stmt)]
    read = set(_loaded(roots))
    roots += [
        each.value
        for each in own_nodes(test)
        if isinstance(each, ast.Assign) and any(isinstance(to, ast.Name) and to.id in read for to in each.targets)
    ]
    inside = [each for root in roots for each in ast.walk(root)]
    bound = {name for each in inside if isinstance(each, _SCOPES) and not holds(each, node) for name in _bound(each)}
    calls = [each for each in inside if isinstance(each, ast.Call) and not holds(each, node)]
    given = [value for each in calls for value in (*each.args, *(word.value for word in each.keywords))]
    return sorted(set(_loaded(given)) - bound), _short(each for value in given for each in _literals(value))


def _statement(test: Function, node: ast.expr) -> ast.AST:
    """The innermost statement that holds `node`."""
    return [each for each in ast.walk(test) if isinstance(each, ast.stmt) and holds(each, node)][-1]


def _loaded(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Variables that expressions read, but for those that they call."""
    called = {id(each.func) for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)}
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in called:
                yield each.id


def _bound(scope: ast.AST) -> Iterator[str]:
    """Variables of a comprehension or a lambda."""
    for each in ast.walk(scope):
        if isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


@lru_cache(maxsize=64)
def _constants_of(tree: ast.AST) -> list[Any]:
    return _short(_literals(tree))


def _short(constants: Iterable[Any]) -> list[Any]:
    """Numbers and texts of few characters, each once."""
    short = [each for each in constants if type(each) in (int, float, str, bytes) and len(repr(each)) <= MAX_CONSTANT]
    return list({(type(each), each): each for each in short}.values())[:MAX_CONSTANTS]


def _literals(tree: ast.AST) -> Iterator[Any]:
    """Constants with their signs in their order, without statements that are texts."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Constant):
            yield node.value
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _is_number(node.operand):
            yield -ast.literal_eval(node.operand)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            left += reversed(list(ast.iter_child_nodes(node)))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
