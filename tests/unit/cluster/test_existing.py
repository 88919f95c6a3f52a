"""`SWERL_CLUSTER=existing make cluster`: nothing is started, and the user's own cluster is looked at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import cluster.__main__
from cluster import lifecycle

REFUSED = "The connection to the server 127.0.0.1:1 was refused"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder on PATH of a user who asks for `up`, which must start nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("SWERL_CLUSTER", "existing")
    monkeypatch.setenv("SWERL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "argv", ["cluster", "up"])
    monkeypatch.setattr(lifecycle, "up", lambda *_, **__: pytest.fail("a cluster was started"))
    return folder


def kubectl(programs: Path, script: str) -> None:
    """Have a kubectl that notes what it is asked."""
    program = programs / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$*" >"$0.asked"\n{script}\n')
    program.chmod(0o755)


def test_cluster_with_kuberay_is_used(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl(programs, "echo customresourcedefinition.apiextensions.k8s.io/rayclusters.ray.io")
    assert cluster.__main__.main() == 0
    assert "using the existing one of your kubeconfig" in capsys.readouterr().out
    assert (programs / "kubectl.asked").read_text() == "get crd rayclusters.ray.io -o name\n"
    assert not (programs.parent / "home").exists()


def test_unreachable_cluster_is_reported_with_its_message(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl(programs, f"echo '{REFUSED}' >&2; exit 1")
    assert cluster.__main__.main() == 1
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert f"`kubectl get crd rayclusters.ray.io -o name` failed: {REFUSED}" in stderr
    assert "set KUBECONFIG to a cluster that has the KubeRay operator" in stderr


def test_missing_kubectl_is_reported(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.__main__.main() == 1
    assert "SWERL_CLUSTER=existing needs kubectl on PATH" in capsys.readouterr().err
