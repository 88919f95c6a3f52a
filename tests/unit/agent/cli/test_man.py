"""`swerl man`: manual pages as roff reads them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from swerl_agent.cli import main, root
from swerl_agent.cli.man import manual_pages

MACROS = {"TH", "SH", "TP", "B"}
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("man") / "man1"
    assert main(["man", str(made)]) == 0
    return made


def test_every_command_has_a_page(folder: Path) -> None:
    pages = {path.stem for path in folder.iterdir()}
    assert {"swerl", "swerl-watch", "swerl-sandbox", "swerl-sandbox-run"} <= pages
    assert {f"swerl-{name}" for name in root.list_commands(click.Context(root))} <= pages


def test_page_has_synopsis_options_and_exit_codes(folder: Path) -> None:
    text = (folder / "swerl-watch.1").read_text()
    assert re.findall(r"^\.SH (.+)$", text, re.MULTILINE) == SECTIONS
    assert "swerl\\-watch \\- " in text and ".B swerl watch\n[OPTIONS] " in text
    assert ".B \\-n, \\-\\-namespace" in text and ".B 130, 143\n" in text


def test_page_of_a_group_lists_its_commands(folder: Path) -> None:
    text = (folder / "swerl-sandbox.1").read_text()
    assert ".SH COMMANDS\n.TP\n.B ls\n" in text and ".TP\n.B run\n" in text and "swerl\\-sandbox\\-run(1)" in text


def test_no_line_is_a_macro_by_accident(folder: Path) -> None:
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            assert line and not line.startswith("'")
            assert not line.startswith(".") or re.split(r"[. ]", line)[1] in MACROS, f"{path.name}: {line}"


def test_text_of_a_command_is_printed_as_it_is() -> None:
    command = click.Command("odd", help=".it's a \\ and-so")
    [(name, text)] = manual_pages(command, ("odd",))
    assert name == "odd" and ".SH DESCRIPTION\n\\&.it's a \\e and\\-so\n" in text
