"""Alterations of a test file whose outcome an honest implementation cannot change.

A *must-fail* alteration keeps a test's name and gives it an end that fails, or changes a value that it checks
(`replaced_values`). A *copy* is the same test under another name: beside it, in another class, or compiled for another
file.

Guarantees: the file is read with `ast` and edited as text, so that every other character of it stays; no code of the
file is imported or run.
"""

from __future__ import annotations

import ast
import random
import re
import string
import textwrap
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

CopyPlace = Literal["beside", "class", "file"]
Function = ast.FunctionDef | ast.AsyncFunctionDef
ENDS = ("raise", "assert", "own")  # forms of a failing end; `own`: the test class's own assertion
_LOWER = re.compile(r"[a-z]+")
_LETTERS = string.digits + string.ascii_letters  # of a copy's name
_PARSER = threading.Lock()  # Python 3.11 may raise SystemError where several threads parse at once
_DRAWS = 100  # of names with a prefix, until one sorts as it must
_COMPOUND = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
)  # fmt: skip
_ODD_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Edit:
    """Characters of a file from `start` to `end`, and what stands there instead."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Names:
    """What a test is called: its class ('' for none; dots for nested ones) and its function."""

    owner: str
    function: str


class TestSource:
    """A test file as text and tree. Raises SyntaxError or ValueError where it is no Python 3."""

    __test__ = False

    def __init__(self, text: str) -> None:
        if _ODD_ENDS.search(text):
            raise ValueError("the file has line ends that are not newlines")
        self.text = text
        with _PARSER:
            self.tree = ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.functions = {names: (owner, node) for names, owner, node in _functions(self.tree.body, ())}

    def index(self, line: int, column: int) -> int:
        """Index of a position as `ast` counts it: lines from 1, columns in UTF-8 bytes."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + len(text.encode()[:column].decode(errors="ignore"))

    def line_start(self, line: int) -> int:
        """Index of a line's first character."""
        return self._starts[line - 1]

    def indentation(self, node: ast.stmt) -> str:
        """Blanks before a statement."""
        line = self._lines[node.lineno - 1]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """A definition's lines, its decorators included, as indices."""
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        return self.line_start(first), self._starts[min(node.end_lineno or node.lineno, len(self._lines))]


def _functions(
    body: Iterable[ast.stmt], owners: tuple[ast.ClassDef, ...]
) -> Iterator[tuple[Names, ast.ClassDef | None, Function]]:
    for node in body:
        if isinstance(node, Function):
            yield Names(".".join(each.name for each in owners), node.name), owners[-1] if owners else None, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, (*owners, node))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            nested = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            yield from _functions([each for part in nested for each in part], owners)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run with a function: not those of functions and classes within."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.ClassDef | ast.Lambda):
            yield child
            yield from own_nodes(child)


def holds(tree: ast.AST, node: ast.AST) -> bool:
    """Whether a node is part of a tree, or its root."""
    return any(each is node for each in ast.walk(tree))


def accepts_failing_statement(node: Function) -> bool:
    """Whether a failing end can be put to a test: a generator's body may not run."""
    return not any(isinstance(each, ast.Yield | ast.YieldFrom) for each in own_nodes(node))


def failing(form: str, node: Function, rng: random.Random) -> str:
    """A statement that fails, in the given form."""
    one, other = rng.randrange(11, 99), rng.randrange(11, 99)
    wrong = one * other + rng.randrange(1, 9)
    first = node.args.args[0].arg if node.args.args else ""
    if form == "own" and first and _asserts_by_itself(node, first):
        return rng.choice([f"{first}.assertEqual({one} * {other}, {wrong})", f"{first}.fail({str(wrong)!r})"])
    if form == "raise":
        return f"raise {rng.choice(['AssertionError', 'ValueError', 'RuntimeError'])}({str(wrong)!r})"
    return f"assert {one} * {other} == {wrong}"


def _asserts_by_itself(node: Function, first: str) -> bool:
    calls = [each.func for each in own_nodes(node) if isinstance(each, ast.Call)]
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and (each.value.id == first and each.attr.startswith("assert"))
        for each in calls
    )


def append_failing_statement(source: TestSource, node: Function, statement: str) -> list[Edit]:
    """`statement` at the end of a test's body and before each of its returns."""
    last, line = node.body[-1], node.end_lineno or node.lineno
    if isinstance(last, _COMPOUND):
        at = source.line_start(line + 1)
        newline = "" if source.text[:at].endswith("\n") else "\n"
        edits = [Edit(at, at, f"{newline}{source.indentation(node.body[0])}{statement}\n")]
    else:
        at = source.index(line, last.end_col_offset or 0)
        edits = [Edit(at, at, f"; {statement}")]
    for each in own_nodes(node):
        if isinstance(each, ast.Return):
            start = source.index(each.lineno, each.col_offset)
            edits.append(Edit(start, start, f"{statement}; "))
    return edits


def statement_at_start(source: TestSource, test: Function, statement: str) -> Edit | None:
    """A statement at a test's beginning, after its docstring."""
    first = next((each for each in test.body if not _is_text(each)), None)
    if first is None or getattr(first, "decorator_list", []):
        return None
    at = source.index(first.lineno, first.col_offset)
    return Edit(at, at, f"{statement}\n{source.indentation(first)}" if first.lineno > test.lineno else f"{statement}; ")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def copy_names(
    names: Names, place: CopyPlace, rng: random.Random, *, before: bool = False, count: int = 1
) -> list[Names]:
    """Names of `count` copies in their order: sorted after the test's own, or before them, for runners that sort."""
    prefix = "test" if names.function.startswith("test") or not (word := _LOWER.match(names.function)) else word[0]
    functions = _drawn((f"{prefix}_", prefix, f"{prefix}0"), names.function, rng, before, count)
    if place == "beside" or not names.owner:
        return [Names(names.owner, function) for function in functions]
    prefixes = ("Test",) if names.owner.startswith("Test") else ("Test", names.owner[0])
    owners = _drawn(prefixes, names.owner, rng, before, count)
    return [Names(owner, function) for owner, function in zip(owners, functions, strict=True)]


def _drawn(prefixes: Sequence[str], own: str, rng: random.Random, before: bool, count: int) -> list[str]:
    """Random names with the first of the prefixes with which they sort before or after `own`, in their order."""
    drawn = [start + "".join(rng.choices(_LETTERS, k=8)) for start in prefixes for _ in range(_DRAWS * count)]
    sorted_right = [each for each in drawn if (each < own) == before]
    return sorted((sorted_right if len(sorted_right) >= count else drawn)[:count])


def copied_test(
    source: TestSource, names: Names, new: Names, place: CopyPlace, inner: Sequence[Edit] = (), *, before: bool = False
) -> Edit | None:
    """The test under the names `new`, with the edits `inner`, after the test or before it; None where it cannot be
    there."""
    owner, node = source.functions[names]
    if place != "beside" and owner is not None and ("." in names.owner or owner.col_offset):
        return None
    if place == "class" and owner is None:
        return None
    whole = owner if owner is not None and place != "beside" else node
    text = _renamed(_copied(source, whole, node, inner), names, new)
    if place == "file":
        if whole.col_offset:
            return None
        name = f"/test_z{new.function}.py"  # pytest before 7.2 sorts by the file's name
        text = f"exec(compile({text!r}, __file__.rpartition('/')[0] + {name!r}, 'exec'), globals())\n"
        text = textwrap.indent(text, source.indentation(whole))
    at = source.span(whole)[0 if before else 1]
    start = "" if not at or source.text[:at].endswith("\n") else "\n"
    return Edit(at, at, f"{start}\n{text}")


def _copied(source: TestSource, whole: ast.stmt, node: Function, inner: Sequence[Edit]) -> str:
    """Lines of the function, or of its class without the other tests, with the edits in them."""
    start, end = source.span(whole)
    cut = list(inner)
    if isinstance(whole, ast.ClassDef):
        others = [each for each in whole.body if isinstance(each, Function) and each.name.startswith("test")]
        spans = [source.span(each) for each in others if each is not node]
        cut += [Edit(first, last, "") for first, last in spans]
    text = edited(source.text, cut, start, end)
    return text if text.endswith("\n") else text + "\n"


def _renamed(text: str, names: Names, new: Names) -> str:
    text = re.sub(rf"\bdef(\s+){names.function}\b", rf"def\g<1>{new.function}", text, count=1)
    old, other = names.owner.rpartition(".")[2], new.owner.rpartition(".")[2]
    return re.sub(rf"(?<![\w.]){old}\b", other, text) if old != other else text


def _depth(text: str) -> int:
    """Blanks before the first line: where a class and its last method end at one place, the method's text is first."""
    body = text.lstrip("\n")
    return len(body) - len(body.lstrip(" \t"))


def edited(text: str, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """`text` from `start` to `end` with those of the edits that lie there; overlapping ones lose to the first."""
    stop = len(text) if end is None else end
    parts, at = [], start
    for edit in sorted(edits, key=lambda each: (each.start, each.end, -_depth(each.text))):
        if edit.start < at or edit.end > stop:
            continue
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:stop]])
