"""Grafana's own types read the dashboards: each field is known, present where required, and of the right kind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.build import build
from cluster.layout import swerl_home

from .queries import DASHBOARDS, dashboard


@pytest.fixture(scope="module")
def reader() -> Path:
    """The program that reads dashboards, built once."""
    return build(swerl_home(), "dashboards") / "dashboards"


def problems(reader: Path, *paths: Path) -> str:
    return subprocess.run([str(reader), *map(str, paths)], capture_output=True, text=True, timeout=60).stdout


def test_dashboards_are_accepted(reader: Path) -> None:
    assert problems(reader, *DASHBOARDS) == ""


@pytest.mark.parametrize(
    ("panel", "problem"),
    [
        ({"colour": "red"}, "unexpected field 'colour'"),
        ({"fieldConfig": {"defaults": {"min": "x"}, "overrides": []}}, "cannot unmarshal string"),
        ({"options": {}}, "required field is missing"),
    ],
)
def test_wrong_panel_is_named(reader: Path, tmp_path: Path, panel: dict[str, Any], problem: str) -> None:
    wrong = dashboard(DASHBOARDS[0])
    wrong["panels"][1] |= panel
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    found = problems(reader, tmp_path / "wrong.json")
    assert problem in found and "wrong.json: panels[1]" in found
