"""Modules and packages of the product import each other in one direction only."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / name for name in ("crds", "operator", "agent", "trainer")]


def modules() -> dict[str, Path]:
    """Dotted name -> file of every module; a package has its `__init__.py`."""
    found = {}
    for source in SOURCES:
        for path in source.glob("swerl_*/**/*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, modules: Iterable[str]) -> set[str]:
    """Modules among `known` that `name` imports, inside functions and for type checking too."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parent, *([node.module] if node.module else [])])
            submodules = {f"{module}.{alias.name}" for alias in node.names} & set(modules)
            found |= submodules
            if len(submodules) < len(node.names):
                found.add(module)
    return (found & set(modules)) - {name}


@pytest.fixture(scope="module")
def imports() -> Mapping[str, set[str]]:
    files = modules()
    return {name: imported(name, path, files.keys()) for name, path in files.items()}


def test_modules_have_no_import_circle(imports: Mapping[str, set[str]]) -> None:
    assert len(imports) > 200
    assert find_cycle(imports) == []


def test_packages_have_no_import_circle(imports: Mapping[str, set[str]]) -> None:
    graph: dict[str, set[str]] = {}
    for name, targets in imports.items():
        graph.setdefault(package_of(name), set()).update(map(package_of, targets))
    assert find_cycle({name: targets - {name} for name, targets in graph.items()}) == []


def test_circle_of_imports_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert sorted(set(find_cycle({"a": {"b"}, "b": {"a"}, "c": {"a"}}))) == ["a", "b"]


def package_of(module: str) -> str:
    """`swerl_agent.sandbox` of `swerl_agent.sandbox.session`."""
    return ".".join(module.split(".")[:2])


def find_cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Names along one circle of `graph`, [] when it has none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
