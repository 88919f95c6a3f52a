"""Python environments of programs that tests run beside the product, each with pins of its own."""

from __future__ import annotations

from pathlib import Path

from cluster.layout import locked, swerl_home
from demo.cluster import ROOT
from demo.environment import ensure


def environment_of(name: str) -> Path:
    """The interpreter of the environment with the pins of `requirements/<name>.txt`, which is made once."""
    folder = swerl_home() / f"{name}-venv"
    with locked(folder.with_suffix(".lock")):
        return ensure(folder, ROOT / "requirements" / f"{name}.txt")
