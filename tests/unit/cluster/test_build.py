"""Programs that are built here say which release they are, and compile the packages that they share once."""

from __future__ import annotations

import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster import build, targets
from cluster.layout import swerl_home

KUBERNETES_MODULE = targets.SOURCES / "go" / "kubernetes" / "go.mod"
ON_KUBERNETES = ("kubernetes", "kuberay", "helm")


@pytest.fixture
def helm() -> str:
    return str(build.build(swerl_home(), "helm") / "helm")


def test_helm_prints_the_version_that_its_module_pins(helm: str) -> None:
    pinned = re.search(r"helm\.sh/helm/v3 (v3\.\d+\.\d+)", KUBERNETES_MODULE.read_text())
    assert pinned
    done = subprocess.run([helm, "version", "--template", "{{.Version}}"], capture_output=True, text=True)
    assert done.stdout == pinned[1], done.stderr


def test_helm_renders_for_a_kubernetes_of_its_time(helm: str, tmp_path: Path) -> None:
    """An unstamped helm assumes 1.20, which our chart refuses."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: small, version: 0.1.0, kubeVersion: '>= 1.30.0'}")
    done = subprocess.run([helm, "template", "small", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_kuberay_and_helm_share_the_packages_of_kubernetes() -> None:
    """Go compiles a package once per version and flags: each version of k8s.io/* must be that of Kubernetes."""
    assert {targets.TARGETS[name]().folder / "go.mod" for name in ON_KUBERNETES} == {KUBERNETES_MODULE}
    text = KUBERNETES_MODULE.read_text()
    pinned = re.search(r"k8s\.io/kubernetes v1(\.\d+\.\d+)", text)
    assert pinned
    replaced = dict(re.findall(r"^replace (\S+) => \1 (\S+)$", text, re.MULTILINE))
    assert set(replaced.values()) == {f"v0{pinned[1]}"}
    assert {"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/kubectl"} <= set(replaced)


def test_targets_of_one_module_are_compiled_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the same time, each would compile what they share."""
    running: list[str] = []
    most = 0

    def compile_slowly(target: targets.BuildTarget, result: Path) -> None:
        nonlocal most
        running.append(target.name)
        most = max(most, len(running))
        time.sleep(0.1)
        running.remove(target.name)

    monkeypatch.setattr(build, "_compile", compile_slowly)
    monkeypatch.setattr(build, "_copy", lambda target, result: None)
    with ThreadPoolExecutor(len(ON_KUBERNETES)) as pool:
        folders = list(pool.map(lambda name: build.build(tmp_path, name), ON_KUBERNETES))
    assert most == 1 and all(folder.is_dir() for folder in folders)
