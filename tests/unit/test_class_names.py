"""A class or type alias of the product and its tools has a name of its own: a search for the name finds one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("crds", "operator", "agent", "trainer")
TOOLS = ("cluster", "demo", "images", "release", "tiny_model", "website")
ALIAS = re.compile(r"_*[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
SAME_CONCEPT: Mapping[str, str] = {
    "Json": "a JSON object of the Kubernetes API",
    "Manifest": "a manifest to create",
    "Points": "a series to plot",
    "RMSNorm": "the same layer, in the trainer's model and in that of the demo, which imports no trainer",
    "Schema": "an OpenAPI schema, for the CRDs and for their pages",
    "Unreachable": "the API server did not answer; the local cluster imports nothing of the product",
}
"""Name -> why its classes are the same concept in the same role (docs/decisions/names.md)."""


def defined(source: str) -> Iterator[str]:
    """Names of classes and of type aliases at the top of a module, without leading underscores; no type variables."""
    tree = ast.parse(source)
    yield from (node.name.lstrip("_") for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) and not _is_type_variable(node.value) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from (name.lstrip("_") for name in names if ALIAS.fullmatch(name))


def _is_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec", "TypeVarTuple")


def repeated(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Names that are defined more than once, with the files that define them, from the text of each file."""
    places: dict[str, list[str]] = {}
    for path, source in sources.items():
        for name in defined(source):
            places.setdefault(name, []).append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_repeated_name_is_found() -> None:
    sources = {"a.py": "class A: ...\nif True:\n    class B: ...", "b.py": "class B: ...", "c.py": "class C(A): ..."}
    assert repeated(sources) == {"B": ["a.py", "b.py"]}


def test_private_class_and_type_alias_count() -> None:
    sources = {"a.py": "class _Row: ...\nT = TypeVar('T')\nKey = TypeVar('Key')", "b.py": "Row = tuple[int]\nKey = str"}
    assert repeated(sources) == {"Row": ["a.py", "b.py"]}


def test_every_class_of_the_product_has_a_name_of_its_own() -> None:
    paths = [path for folder in PACKAGES for path in sorted((ROOT / folder).glob("swerl_*/**/*.py"))]
    paths += [path for folder in TOOLS for path in sorted((ROOT / folder).rglob("*.py"))]
    paths += sorted((ROOT / "tasks").glob("*.py"))  # below are the bundled tasks' own packages
    assert len(paths) > 200
    found = repeated({str(path.relative_to(ROOT)): path.read_text() for path in paths})
    assert {name: places for name, places in found.items() if name not in SAME_CONCEPT} == {}
    assert set(SAME_CONCEPT) <= set(found), "SAME_CONCEPT names a class that is defined once; remove it"
