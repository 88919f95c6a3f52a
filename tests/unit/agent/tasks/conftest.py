"""`swerl tasks import` into a file of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from swerl_agent.cli import main

Run = Callable[..., list[str]]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "train.jsonl"


@pytest.fixture
def run(out: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Import into `out`; what was said on standard error. The exit code must be `code`."""

    def go(*arguments: object, code: int = 0) -> list[str]:
        assert main(["tasks", "import", *map(str, arguments), "--output", str(out)]) == code
        return capsys.readouterr().err.splitlines()

    return go
