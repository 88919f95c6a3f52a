"""Literals at the top of a test file, which a copy of a test that must pass has as variables of its own.

Code that replaces such a literal in the file's module decides nothing there, even if it puts it back.

Guarantees: only names that the file binds once are taken, and only those that the test's body reads.
"""

from __future__ import annotations

import ast
from collections import Counter

from .alterations import Edit, Function, TestSource, statement_at_start

MAX_LITERAL = 2_000  # characters


def with_own_literals(source: TestSource, test: Function) -> Edit | None:
    """The test with these literals; None where it reads none."""
    literals, read = _literals(source.tree), _read(test)
    statements = [f"{name} = {literals[name]}" for name in sorted(literals.keys() & read)]
    return statement_at_start(source, test, "; ".join(statements)) if statements else None


def _literals(tree: ast.Module) -> dict[str, str]:
    bound = Counter(name for each in ast.walk(tree) for name in _bound(each))
    found: dict[str, str] = {}
    for each in tree.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and bound[each.targets[0].id] == 1:
            try:
                found[each.targets[0].id] = repr(ast.literal_eval(each.value))
            except ValueError:
                continue
    return {name: text for name, text in found.items() if len(text) <= MAX_LITERAL}


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    return list(node.names) if isinstance(node, ast.Global) else []


def _read(test: Function) -> set[str]:
    return {
        each.id
        for statement in test.body
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
