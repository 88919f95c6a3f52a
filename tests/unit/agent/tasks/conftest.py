"""`swerl tasks import` into a file of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from swerl_agent.cli import main

Run = Callable[..., list[str]]


@pytest.fixture
def output_file(tmp_path: Path) -> Path:
    return tmp_path / "out" / "train.jsonl"


@pytest.fixture
def run_import(output_file: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Import into `out`; what was said on standard error. The exit code must be `code`."""

    def go(*arguments: object, code: int = 0) -> list[str]:
        assert main(["tasks", "import", *map(str, arguments), "-o", str(output_file)]) == code
        return capsys.readouterr().err.splitlines()

    return go
