"""Tests pass a setting and patch no constant: the code under test then runs as it is shipped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PATCHERS = ("setattr", "patch", "object")  # of monkeypatch and of unittest.mock
CONSTANT = re.compile(r"(.*\.)?_?[A-Z][A-Z0-9_]+")


def patched_constants(source: str) -> Iterator[str]:
    """Constants that a test replaces: by a patcher's first two arguments, or by assignment to a module's attribute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and CONSTANT.fullmatch(node.attr):
            yield node.attr
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PATCHERS:
            texts = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
            yield from (text for text in texts if isinstance(text, str) and CONSTANT.fullmatch(text))


@pytest.mark.parametrize(
    "line",
    [
        'monkeypatch.setattr(module, "LIMIT", 1)',
        'monkeypatch.setattr("package.module._LIMIT", 1)',
        'setattr(module, "LIMIT", 1)',
        'mock.patch("package.module.LIMIT", 1)',
        'patch.object(module, "LIMIT", 1)',
        "module.LIMIT = 1",
    ],
)
def test_patched_constant_is_found(line: str) -> None:
    assert [name.rpartition(".")[2].strip("_") for name in patched_constants(line)] == ["LIMIT"]


@pytest.mark.parametrize(
    "line",
    [
        'monkeypatch.setattr(module, "function", f)',
        'monkeypatch.setenv("LIMIT", "1")',
        "LIMIT = 1",
        'client.patch("v1", "pods", NAMESPACE, "a", BODY)',
        'monkeypatch.setattr(module, "Grader", Noting)',
    ],
)
def test_other_replacements_are_ignored(line: str) -> None:
    assert list(patched_constants(line)) == []


def test_no_test_patches_a_constant() -> None:
    found = {path: list(patched_constants(path.read_text())) for path in TESTS.rglob("*.py")}
    assert {str(path.relative_to(TESTS)): names for path, names in found.items() if names} == {}
