"""The site: what it is made of, and the built pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from website.build import reference_pages
from website.pages import ROOT, collect, notebook_page, rewrite
from website.tables import cell

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}  # tags that load a file
SHEET_ADDRESS = re.compile(r"url\([\"']?((?:https?:)?//[^)]+)")
OTHER_HOST = re.compile(r"(https?:)?//")
SECONDS = 120.0  # for one build on a busy machine; a free one needs 15


class Loaded(HTMLParser):
    """Addresses of what a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADING.get(tag, ""))
        self.found += [address] if address else []


def loaded_from_other_hosts(folder: Path) -> Iterator[str]:
    for page in folder.rglob("*.html"):
        yield from (f"{page.name}: {each}" for each in Loaded(page.read_text()).found if OTHER_HOST.match(each))
    for sheet in folder.rglob("*.css"):
        yield from (f"{sheet.name}: {each}" for each in SHEET_ADDRESS.findall(sheet.read_text()))


def test_site_is_built_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    started = time.monotonic()
    command = [sys.executable, "-m", "website", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < SECONDS
    assert list(loaded_from_other_hosts(tmp_path / "site")) == []
    pages = {page.relative_to(tmp_path / "site").as_posix() for page in tmp_path.rglob("*.html")}
    assert {"index.html", "docs/concepts.html", "docs/reference/swerljobs.html", "examples/index.html"} <= pages
    assert 'class="mermaid"' not in "".join(page.read_text() for page in tmp_path.rglob("*.html"))


def test_page_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="//cdn.example.org/a.js"></script><a href="https://example.org">a</a>'
    )
    (tmp_path / "a.css").write_text("@font-face { src: url('https://fonts.example.org/f') }")
    assert len(list(loaded_from_other_hosts(tmp_path))) == 2


def test_reference_has_every_field_command_and_series() -> None:
    pages = reference_pages()
    jobs, commands, series = (pages[f"docs/reference/{name}.md"] for name in ("swerljobs", "commands", "series"))
    assert re.search(r"\| `spec.algorithm.lr` \| number .*\| `1e-06` \|", jobs)
    assert "`spec.trainer.tolerations[].key`" in jobs and "\n* algorithm.groupSize must not exceed" in jobs
    assert "## swerl tasks check" in commands and "| `--repeat N` |" in commands and "| `--help` |" not in commands
    assert "`swerl_rollout_raw_reward`" in series and "`swerl_rollout_zero_std_count{reward}`" in series
    assert "| `swerl_sandbox_groups_ended_total` | counter |" in series
    assert "| `swerl_driver_sampled_tokens_total` | counter |" in series and "\\\\" not in series


def test_linked_files_become_pages(tmp_path: Path) -> None:
    collect(tmp_path, generated={"docs/reference/a.md": "# A\n"})
    assert "](../examples/swerljob-1x8-4b.yaml.md)" in (tmp_path / "docs" / "from-scripts.md").read_text()
    assert (tmp_path / "examples" / "swerljob-1x8-4b.yaml.md").read_text().startswith("# examples/swerljob-1x8-4b.yaml")
    assert "](swerljob-1x8-4b.yaml.md)" in (tmp_path / "examples" / "index.md").read_text()
    assert (tmp_path / "docs" / "pictures" / "overview.svg").is_file()
    assert (tmp_path / "docs" / "reference" / "a.md").is_file()


def test_broken_link_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"docs: a link names missing\.md, which does not exist"):
        rewrite("[a](missing.md)", ROOT / "docs")


def test_fenced_links_stay() -> None:
    text = "```text\n[a](missing.md)\n```\n[b](jobs.md#x)"
    assert rewrite(text, ROOT / "docs") == (text, [ROOT / "docs" / "jobs.md"])


def test_cells_of_a_notebook_are_shown() -> None:
    cells = [{"cell_type": "markdown", "source": ["# A"]}, {"cell_type": "code", "source": ["f(\n", "1)"]}]
    assert notebook_page(json.dumps({"cells": cells})) == "# A\n\n```python\nf(\n1)\n```\n"


def test_cell_escapes_all_but_code() -> None:
    assert cell("a <b> | `x_y|z` *c* d_e") == "a &lt;b> \\| `x_y\\|z` \\*c\\* d\\_e"
