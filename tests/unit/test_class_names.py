"""A class of the product has a name of its own: who reads or searches a name finds one class."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("crds", "operator", "agent", "trainer")
SAME_CONCEPT: Mapping[str, str] = {}
"""Name -> why its classes are the same concept in the same role (docs/decisions/names.md)."""


def repeated(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Class names that occur more than once, with the files that define them, from the text of each file."""
    places: dict[str, list[str]] = {}
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_repeated_name_is_found() -> None:
    sources = {"a.py": "class A: ...\nif True:\n    class B: ...", "b.py": "class B: ...", "c.py": "class C(A): ..."}
    assert repeated(sources) == {"B": ["a.py", "b.py"]}


def test_every_class_of_the_product_has_a_name_of_its_own() -> None:
    paths = [path for source in SOURCES for path in sorted((ROOT / source).glob("swerl_*/**/*.py"))]
    assert len(paths) > 200
    found = repeated({str(path.relative_to(ROOT)): path.read_text() for path in paths})
    assert {name: places for name, places in found.items() if name not in SAME_CONCEPT} == {}
    assert set(SAME_CONCEPT) <= set(found), "SAME_CONCEPT names a class that is defined once; remove it"
