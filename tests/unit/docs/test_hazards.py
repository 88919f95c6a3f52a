"""The page of hazards names tests that exist, one at least for each of its rows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/hazards.md").read_text()
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def defined_in(path: Path) -> set[str]:
    """Names of the tests in a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}
    return {name for name in found if name.startswith("test_")}


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) == PAGE.count("::") > 0
    known = {path: defined_in(ROOT / path) for path, _ in named}
    assert [f"{path}::{name}" for path, name in named if name not in known[path]] == []


def test_every_row_names_a_test() -> None:
    heads = ("|---", "| what went wrong", "| input")
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(heads)]
    assert rows
    assert [row for row in rows if not NAMED.search(row)] == []
