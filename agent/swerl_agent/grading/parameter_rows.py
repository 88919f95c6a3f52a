"""Other values of a test's parameter in its `parametrize` decorator, where code of the test's process can read them.

Guarantees: each case keeps its id; only rows of literals are changed. No code of the file is run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .alterations import Edit, Function, TestSource

Cell = str | int | float | bool | None


def is_parametrized(test: Function, name: str) -> bool:
    """Whether rows of literals give this parameter its values."""
    return next(_columns(test, name), None) is not None


def changed_rows(source: TestSource, test: Function, name: str, other: Callable[[Cell], object]) -> Edit | None:
    """Every row with another value of the parameter."""
    call, at, rows = next(_columns(test, name), (None, 0, []))
    mark = call.func.value if call and isinstance(call.func, ast.Attribute) else None
    if not call or not isinstance(mark, ast.Attribute) or not isinstance(mark.value, ast.Name):
        return None
    texts = []
    for row in rows:
        values = [*row[:at], other(row[at]), *row[at + 1 :]]
        texts.append(f"{mark.value.id}.param({', '.join(map(repr, values))}, id={_id(row)!r})")
    start = source.index(call.args[1].lineno, call.args[1].col_offset)
    end = source.index(call.args[1].end_lineno or 0, call.args[1].end_col_offset or 0)
    return Edit(start, end, f"[{', '.join(texts)}]")


def _columns(test: Function, name: str) -> Iterator[tuple[ast.Call, int, list[tuple[Cell, ...]]]]:
    """Decorators that give a parameter its values: with its place in each row, and the rows."""
    for each in test.decorator_list:
        if not isinstance(each, ast.Call) or len(each.args) != 2 or each.keywords:
            continue
        if not isinstance(each.func, ast.Attribute) or each.func.attr != "parametrize":
            continue
        names = _names(each.args[0])
        rows = _rows(each.args[1], len(names)) if name in names else []
        if rows:
            yield each, names.index(name), rows


def _names(node: ast.expr) -> list[str]:
    found = _literal(node)
    parts = found.split(",") if isinstance(found, str) else found
    return [str(each).strip() for each in parts] if isinstance(parts, list | tuple) else []


def _rows(node: ast.expr, width: int) -> list[tuple[Cell, ...]]:
    """The rows if all are literals whose ids are known."""
    found = _literal(node)
    rows = [each if width > 1 else (each,) for each in found] if isinstance(found, list | tuple) else []
    simple = [row for row in rows if isinstance(row, list | tuple) and len(row) == width and all(map(_is_simple, row))]
    return [tuple(row) for row in simple] if len(simple) == len(rows) else []


def _literal(node: ast.expr) -> object:
    """None for what is no literal."""
    try:
        found: object = ast.literal_eval(node)
    except ValueError:
        return None
    return found


def _is_simple(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isprintable() and bool(value)
    return value is None or isinstance(value, int | float)


def _id(row: tuple[Cell, ...]) -> str:
    """What pytest calls a case with these values."""
    return "-".join(map(str, row))
