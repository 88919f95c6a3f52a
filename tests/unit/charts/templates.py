"""What the chart renders for given values."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from .queries import CHART


def render(folder: Path, values: str) -> str:
    """All manifests of a release `demo`; fails with helm's message."""
    (folder / "values.yaml").write_text(values)
    command = ["helm", "template", "demo", str(CHART), "--kube-version", "1.34.0", "-f", str(folder / "values.yaml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(folder: Path, values: str) -> list[dict[str, Any]]:
    """Rendered objects."""
    return [each for each in yaml.load_all(render(folder, values), yaml.CSafeLoader) if each]


def manifests(folder: Path, values: str) -> dict[str, Any]:
    """Rendered objects by kind/name."""
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects(folder, values)}
