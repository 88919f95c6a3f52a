"""The files of a release, made by its command; the chart goes through a registry."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from swerl_agent import RELEASE

from cluster.layout import registry, swerl_home
from release.__main__ import push_chart

from .conftest import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of the command."""
    made = tmp_path_factory.mktemp("release")
    command = [sys.executable, "-m", "release", "--images", "no", "--output", str(made)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


def test_checksums_are_those_of_all_files(folder: Path) -> None:
    lines = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    del files["SHA256SUMS"]
    assert lines == files and len(files) == 5


def test_packaged_chart_is_valid(folder: Path) -> None:
    done = subprocess.run(["helm", "lint", str(folder / f"swe-rl-{RELEASE}.tgz")], capture_output=True, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout


def test_chart_is_pulled_from_the_registry_and_names_the_release(folder: Path, tmp_path: Path) -> None:
    push_chart(folder / f"swe-rl-{RELEASE}.tgz", f"{registry()}/release-test")
    pull = ["helm", "template", "swe-rl", f"oci://{registry()}/release-test/swe-rl", "--version", RELEASE]
    settings = ["--plain-http", "--kube-version", "1.33.0", "--set", "image.registry=registry.example.org/team"]
    done = subprocess.run([*pull, *settings], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    bodies = [body for body in yaml.safe_load_all(done.stdout) if body and body["kind"] == "Deployment"]
    images = {container["image"] for body in bodies for container in body["spec"]["template"]["spec"]["containers"]}
    assert images == {f"registry.example.org/team/swe-rl/operator:{RELEASE}"}


def test_push_of_uncommitted_changes_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(copy)], check=True)
    (copy / "README.md").write_text("changed")
    command = [sys.executable, "-m", "release", "--images", "no", "--push", "registry.example.org/team"]
    own = {"PATH": "/usr/bin:/bin", "SWERL_HOME": str(swerl_home())}  # the clone's code alone
    done = subprocess.run(command, cwd=copy, env=own, capture_output=True, text=True)
    assert done.returncode == 1 and "uncommitted changes (M README.md" in done.stderr
