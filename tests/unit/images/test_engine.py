"""How images get into a registry."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from images import engine
from images.engine import ImageBuilder


@pytest.mark.parametrize(("registry", "levels"), [("127.0.0.1:5000", ["1"]), ("registry.example.com/team", [])])
def test_only_images_for_this_machine_are_compressed_in_haste(
    registry: str, levels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(engine, "run", lambda command, env=None: commands.append(command))
    monkeypatch.setattr(ImageBuilder, "in_registry", lambda self, name, tag: False)
    ImageBuilder("buildah", registry, tmp_path).publish("swe-rl/operator", "abc")
    [push] = commands
    assert push[-1] == f"docker://{registry}/swe-rl/operator:abc"
    assert [after for option, after in pairwise(push) if option == "--compression-level"] == levels
