"""One round of the loops around a check, in which alone it runs: code may be right in all rounds but one.

Guarantees: only what has a length is cut to one of its elements, so that no stream is read; the loop itself stays.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .alterations import Edit, Function, TestSource, edited, holds, own_nodes

_ONE = "(lambda each: [*each][{turn} % max(1, len(each)):][:1] if hasattr(type(each), '__len__') else each)({text})"
_PAIRING = ("enumerate", "zip", "reversed")  # of sequences of known length: lists of the same
_LITERALS = (ast.List, ast.Tuple, ast.Constant)


def in_one_round(source: TestSource, test: Function, node: ast.expr, edit: Edit, turn: int) -> Edit:
    """`edit`, which lies in `node`, with the loops around that one cut to one round, another for each turn."""
    edits = [edit, *(_cut(source, each, turn) for each in _iterated(test, node))]
    start, end = min(each.start for each in edits), max(each.end for each in edits)
    return Edit(start, end, edited(source.text, edits, start, end))


def _iterated(test: Function, node: ast.expr) -> Iterator[ast.expr]:
    """What the loops around a node go through, but for those that may leave out the node in some rounds."""
    for each in ast.walk(test):
        if isinstance(each, ast.For) and any(holds(part, node) for part in each.body):
            if not any(isinstance(part, ast.Continue) for part in own_nodes(each)):
                yield each.iter
        elif isinstance(each, ast.GeneratorExp | ast.ListComp) and holds(each.elt, node):
            (first, *others) = each.generators
            if not (first.is_async or first.ifs or others):
                yield first.iter


def _cut(source: TestSource, iterated: ast.expr, turn: int) -> Edit:
    start = source.index(iterated.lineno, iterated.col_offset)
    end = source.index(iterated.end_lineno or iterated.lineno, iterated.end_col_offset or 0)
    text = source.text[start:end]
    called = iterated.func if isinstance(iterated, ast.Call) else None
    if isinstance(iterated, ast.Call) and isinstance(called, ast.Name) and called.id in _PAIRING:
        known = all(isinstance(each, _LITERALS) for each in iterated.args)
        text = f"[*{text}]" if known else text
    return Edit(start, end, _ONE.format(turn=turn, text=text))
