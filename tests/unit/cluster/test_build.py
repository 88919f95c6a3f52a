"""Programs that are built here say which release they are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cluster import build
from cluster.layout import swerl_home


@pytest.fixture
def helm() -> str:
    return str(build.build(swerl_home(), "helm") / "helm")


def test_helm_prints_the_version_that_its_module_pins(helm: str) -> None:
    pinned = re.search(r"helm\.sh/helm/v3 (v3\.\d+\.\d+)", (build.SOURCES / "go" / "helm" / "go.mod").read_text())
    assert pinned
    done = subprocess.run([helm, "version", "--template", "{{.Version}}"], capture_output=True, text=True)
    assert done.stdout == pinned[1], done.stderr


def test_helm_renders_for_a_kubernetes_of_its_time(helm: str, tmp_path: Path) -> None:
    """An unstamped helm assumes 1.20, which our chart refuses."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: small, version: 0.1.0, kubeVersion: '>= 1.30.0'}")
    done = subprocess.run([helm, "template", "small", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
