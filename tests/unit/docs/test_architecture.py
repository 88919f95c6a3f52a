"""The map and the glossary agree with the tree: paths exist, API names are fields or kinds, code names are defined."""

from __future__ import annotations

import re
from functools import cache

import pytest
from swerl_api.crd import KINDS

from .pages import CODE, ROOT, prose
from .test_references import fields

PAGE = ROOT / "docs/architecture.md"
TEXT = prose(PAGE.read_text())
PACKAGES = (
    "crds/swerl_api",
    "crds/swerl_kube",
    "operator/swerl_operator",
    "agent/swerl_agent",
    "trainer/swerl_trainer",
)
PATH = re.compile(r"^[a-z_]+/[\w/.]*$")


def glossary() -> list[list[str]]:
    """Cells of the glossary's rows."""
    table = TEXT[TEXT.index("## Glossary") :]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


@cache
def defined() -> frozenset[str]:
    """Names of modules, classes and functions of all packages."""
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    names = (re.findall(r"^\s*(?:async )?(?:class|def) (\w+)", path.read_text(), re.MULTILINE) for path in modules)
    return frozenset(name for found in names for name in found) | {path.stem for path in modules}


def test_every_path_exists() -> None:
    paths = [code for code in CODE.findall(TEXT) if PATH.match(code)]
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_package_is_on_the_map() -> None:
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).glob("*/__init__.py")}
    assert [
        str(folder.relative_to(ROOT)) for folder in sorted(folders) if f"`{folder.relative_to(ROOT)}/`" not in TEXT
    ] == []


@pytest.mark.parametrize("row", glossary(), ids=lambda row: row[0])
def test_glossary_names_exist_in_api_and_code(row: list[str]) -> None:
    noun, meaning, in_api, in_code = row
    assert meaning
    kinds = {kind.kind for kind in KINDS}
    for name in CODE.findall(in_api):
        assert name in kinds | fields(), f"{noun}: the API has no {name}"
    for name in CODE.findall(in_code):
        assert name in defined(), f"{noun}: no module, class or function is called {name}"


def test_glossary_nouns_are_unique() -> None:
    nouns = [row[0] for row in glossary()]
    assert len(nouns) == len(set(nouns)) > 30
