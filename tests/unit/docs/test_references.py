"""What pages refer to exists: linked files and sections, fields of the API."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from .pages import LINK, ROOT, inline, name, pages, prose

FIELD = re.compile(
    r"^(?:spec\.)?((?:agent|algorithm|checkpoint|evaluation|grading|judge|model|rollout|sandbox|tasks|trainer)(?:\.[a-z][A-Za-z]*)+)$"
)

SOURCE = re.compile(
    r"^(agent|charts|crds|docs|examples|operator|requirements|tests/[a-z_]+|trainer)/[a-z_\d/.]*(/|\.(md|py|sh|txt|yaml))$"
)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_link_targets_exist(page: Path) -> None:
    for link in LINK.findall(prose(page.read_text())):
        if link.startswith(("http:", "https:")):
            continue
        path, _, section = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"no file {path}"
        assert not section or section in sections(target), f"no section {section} in {target.name}"


def sections(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", prose(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_fields_are_fields_of_the_api(page: Path) -> None:
    for code in inline(page):
        if found := FIELD.match(code.partition(":")[0]):
            assert found[1] in fields(), f"{name(page)}: no object has spec.{found[1]}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_source_files_exist(page: Path) -> None:
    for code in inline(page):
        if SOURCE.match(code):
            assert (ROOT / code).exists(), f"{name(page)}: no file {code}"


@cache
def fields() -> frozenset[str]:
    """Paths of all fields below `spec` of all kinds, and of those below `status` with that prefix."""
    found = set[str]()
    for path in (ROOT / "crds").glob("*.yaml"):
        for version in yaml.safe_load(path.read_text())["spec"]["versions"]:
            parts = version["schema"]["openAPIV3Schema"]["properties"]
            walk(parts["spec"], "", found)
            walk(parts["status"], "status.", found)
    return frozenset(found)


def walk(schema: dict[str, Any], path: str, found: set[str]) -> None:
    for field, inner in schema.get("properties", {}).items():
        found.add(f"{path}{field}")
        walk(inner, f"{path}{field}.", found)
    if "items" in schema:
        walk(schema["items"], path, found)
