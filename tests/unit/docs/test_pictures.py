"""Pictures are described for those who cannot see them, load nothing, and belong to a page."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from .pages import ROOT, pages

PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("picture", [path for path in PICTURES if path.suffix == ".svg"], ids=lambda path: path.name)
def test_picture_has_a_description_and_loads_nothing(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and title.text and description is not None and len(description.text or "") > 80
    text = picture.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "://" not in text and "<script" not in text and "@import" not in text


def test_every_picture_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in pages())
    assert [picture.name for picture in PICTURES if f"pictures/{picture.name})" not in text] == []
