"""Every page has a place in the navigation of the site, and every place has a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from website.build import REFERENCE, configuration
from website.pages import ROOT

from .pages import name, pages


def places(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from places(value) if isinstance(value, list) else [value]


def test_every_page_has_a_place() -> None:
    found = set(places(configuration()["nav"]))
    ours = {name(page) for page in pages() if page.parts[-2] == "docs" or page.parent == ROOT / "docs" / "decisions"}
    assert ours - found == set(), "add the page to website/mkdocs.yml"
    generated = {place for place in found if place.startswith(REFERENCE) or place.endswith("/index.md")}
    assert [place for place in found - generated if not (ROOT / place).is_file()] == []
