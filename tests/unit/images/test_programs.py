"""What the programs of this project do to a machine that they share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHIPPED = ("agent", "charts", "cluster", "crds", "demo", "images", "operator", "release", "trainer")
BY_NAME = re.compile(r"\b(pkill|killall)\b|\bray[\s\",']+stop\b|\bkill\s+(-\w+\s+)*(--\s+)?-1\b")


@pytest.mark.parametrize("line", ["pkill -9 python", "killall x", "ray stop --force", '["ray", "stop"]', "kill -9 -1"])
def test_forbidden_line_is_found(line: str) -> None:
    assert BY_NAME.search(line)


@pytest.mark.parametrize("folder", SHIPPED)
def test_nothing_ends_processes_by_name_or_all_at_once(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sh", ".yaml", ".mk", "")]
    texts = {
        path: path.read_text(errors="replace") for path in files if path.is_file() and "__pycache__" not in path.parts
    }
    assert texts
    assert [path for path, text in texts.items() if BY_NAME.search(text)] == []
