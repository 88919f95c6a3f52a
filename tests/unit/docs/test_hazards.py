"""The page of hazards names tests that exist, one at least for each of its rows."""

from __future__ import annotations

from .pages import ROOT, TEST, defined_in

PAGE = (ROOT / "docs/hazards.md").read_text()


def test_every_cited_test_exists() -> None:
    cited = TEST.findall(PAGE)
    assert len(cited) == PAGE.count("::") > 0
    assert [f"{path}::{name}" for path, name in cited if name not in defined_in(path)] == []


def test_every_row_cites_a_test() -> None:
    heads = ("|---", "| hazard", "| input")
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(heads)]
    assert rows
    assert [row for row in rows if not TEST.search(row)] == []
