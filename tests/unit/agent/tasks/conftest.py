"""`swerl tasks import` into a file of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main

from .rows import parquet

Run = Callable[..., list[str]]
Publish = Callable[..., None]


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


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Make rows a data set of an id and split, which the real `datasets` loads from a folder in place of the Hub."""
    import datasets

    datasets.disable_progress_bars()
    load, folder = datasets.load_dataset, tmp_path / "hub"

    def publish(name: str, split: str, *rows: dict[str, Any]) -> None:
        (folder / name / "data").mkdir(parents=True)
        parquet(folder / name / "data" / f"{split}-00000-of-00001.parquet", *rows)

    def from_folder(name: str, *arguments: Any, **options: Any) -> Any:
        return load(str(folder / name), *arguments, **options)

    monkeypatch.setattr("datasets.load_dataset", from_folder)
    return publish
