"""A module has at most 300 lines (CONTRIBUTING.md), a shell script too: it is read as a whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LONGEST = 300  # lines
SOURCES = "py", "sh", "go"


def modules(ending: str) -> list[Path]:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", f"*.{ending}"], capture_output=True, text=True, check=True)
    return [path for path in map(ROOT.joinpath, listed.stdout.splitlines()) if path.exists()]


@pytest.mark.parametrize("ending", SOURCES)
def test_modules_are_short(ending: str) -> None:
    lines = {path: path.read_bytes().count(b"\n") for path in modules(ending)}
    assert lines
    assert {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > LONGEST} == {}
