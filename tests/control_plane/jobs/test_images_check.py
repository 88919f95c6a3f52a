"""`swerl images check` on real registries: the cluster's own, and one that wants tokens."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from swerl_agent.cli import main

from cluster import layout

from .token_registry import token_registry

ROOT = Path(__file__).parents[3]
ABSENT = "swe-rl/task-swe-rl__journal-2:never-pushed"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    path = tmp_path / "images.txt"
    path.write_text(f"swe-rl/task-swe-rl__journal-2:latest\n{ABSENT}\nswe-rl/no-such-repository:1\n")
    return path


def test_bundled_tasks_are_in_the_clusters_registry(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite = ["--registry-rewrite", f"={layout.registry()}/"]
    tasks = [str(ROOT / "tasks" / part) for part in ("train", "held_out")]
    assert main(["images", "check", *tasks, *rewrite]) == 0
    assert capsys.readouterr().out == ""
    assert main(["images", "check", str(images), *rewrite]) == 1
    missing = [f"{layout.registry()}/{name}" for name in (ABSENT, "swe-rl/no-such-repository:1")]
    assert sorted(capsys.readouterr().out.split()) == sorted(missing)


def test_registry_that_requires_tokens_gets_them(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    with token_registry(tmp_path, "me:secret") as host:
        command = ["images", "check", str(images), "--registry-rewrite", f"={host}/"]
        assert main(command) == 1
        assert sorted(capsys.readouterr().out.split()) == [f"{host}/swe-rl/no-such-repository:1", f"{host}/{ABSENT}"]
        for login, present in [("me:secret", 1), ("me:wrong", 0)]:
            auth = base64.b64encode(login.encode()).decode()
            config.write_text(json.dumps({"auths": {host: {"auth": auth}}}))
            assert main([*command, "--docker-config", str(config)]) == 1
            assert f"{present} of 3 images are there" in capsys.readouterr().err
