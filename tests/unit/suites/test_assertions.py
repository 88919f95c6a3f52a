"""Every test asserts something itself: a failure then shows in the test what was expected."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
RAISERS = ("pytest.raises", "pytest.warns", "pytest.fail")


def asserts(test: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and ast.unparse(node.func) in RAISERS)
        for node in ast.walk(test)
    )


def without_assertion(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from () if asserts(node) else (node.name,)


@pytest.mark.parametrize("body", ["assert x", "with pytest.raises(E):\n  f()", "for x in y:\n  assert x"])
def test_assertion_is_found(body: str) -> None:
    indented = body.replace("\n", "\n  ")
    assert list(without_assertion(f"async def test_a():\n  {indented}")) == []


def test_missing_assertion_is_found() -> None:
    assert list(without_assertion("def test_a():\n  f()\n\ndef helper():\n  f()")) == ["test_a"]


def test_every_test_asserts() -> None:
    missing = {path: list(without_assertion(path.read_text())) for path in TESTS.rglob("test_*.py")}
    assert {str(path.relative_to(TESTS)): names for path, names in missing.items() if names} == {}
