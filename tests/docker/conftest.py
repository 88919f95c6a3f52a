"""A docker for each of its two builders, and a checkout that a test may change."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from images.catalogue import ROOT
from tests.docker.daemon import DockerDaemon, install_docker, running_docker


@pytest.fixture(scope="module", params=["classic builder", "BuildKit"])
def docker(request: pytest.FixtureRequest) -> Iterator[DockerDaemon]:
    install_docker()
    buildkit = request.param == "BuildKit"
    with tempfile.TemporaryDirectory(prefix="swerl-docker-") as name:
        folder = Path(name)
        with running_docker(folder, buildkit=buildkit) as daemon:
            yield daemon
        assert name not in Path("/proc/mounts").read_text()


@pytest.fixture(scope="module")
def checkout(docker: DockerDaemon) -> Path:
    """The project with one task of every split."""
    copy = docker.folder / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for split in ("train", "held_out"):
        for task in sorted((copy / "tasks" / split / "tasks").iterdir())[1:]:
            shutil.rmtree(task)
    return copy
