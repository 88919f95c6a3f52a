"""The wheel and the kubectl plugin work where nothing of the checkout is."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from swerl_agent import RELEASE

from images.catalogue import ROOT
from release.files import build_wheel
from release.krew import krew_manifest, write_archive

URL = "https://downloads.example.org/v0"
EPOCH = "1767323045"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    return build_wheel(folder, EPOCH)


@pytest.fixture(scope="module")
def archive(wheel: Path, folder: Path) -> Path:
    return write_archive(wheel, folder, RELEASE)


@pytest.fixture(scope="module")
def manifest(archive: Path) -> dict[str, Any]:
    return krew_manifest(archive, RELEASE, URL)


def outside(**environment: str) -> dict[str, str]:
    """An environment without the checkout; packages that the wheel needs come from this one's, none is downloaded."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", **environment}


def test_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    for source in ("crds", "operator", "agent", "trainer"):
        files = [path for path in (ROOT / source).glob("swerl_*/**/*") if path.is_file()]
        shipped = {path.relative_to(ROOT / source).as_posix() for path in files if "__pycache__" not in path.parts}
        assert shipped
        assert {path for path in shipped if not path.endswith((".pyc", ".so"))} <= packed


def test_installed_wheel_has_the_command(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", str(wheel)], env=outside(), check=True)
    packages = {"PYTHONPATH": sysconfig.get_path("purelib"), "PYTHONSAFEPATH": "1"}
    for name in ("swerl", "kubectl-swerl"):
        said = subprocess.check_output([str(python.parent / name), "--version"], env=outside(**packages), text=True)
        assert said == f"swerl {RELEASE}\n"
    where = [str(python), "-c", "import swerl_agent; print(swerl_agent.__file__)"]
    assert str(tmp_path) in subprocess.check_output(where, env=outside(**packages), text=True)


def test_manifest_is_one_that_krew_takes(manifest: dict[str, Any], archive: Path) -> None:
    spec = manifest["spec"]
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[\w-]+", manifest["metadata"]["name"])
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.]+)?", spec["version"])
    assert spec["shortDescription"] and "\n" not in spec["shortDescription"]
    assert set(spec) <= {"version", "shortDescription", "description", "caveats", "homepage", "platforms"}
    (platform,) = spec["platforms"]
    assert set(platform) == {"selector", "uri", "sha256", "files", "bin"}
    assert platform["uri"] == f"{URL}/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert all(operation["from"] and operation["to"] for operation in platform["files"])
    expressions = platform["selector"]["matchExpressions"]
    assert [(one["key"], one["operator"]) for one in expressions] == [("os", "In"), ("arch", "In")]


def test_archive_is_the_same_for_the_same_wheel(wheel: Path, archive: Path, tmp_path: Path) -> None:
    assert write_archive(wheel, tmp_path, RELEASE).read_bytes() == archive.read_bytes()


def test_installed_plugin_runs(manifest: dict[str, Any], archive: Path, tmp_path: Path) -> None:
    (platform,) = manifest["spec"]["platforms"]
    store, link = tmp_path / "krew store/swerl", tmp_path / "bin/kubectl-swerl"  # what krew makes of the archive
    with tarfile.open(archive) as opened:
        opened.extractall(store, filter="data")
    assert "LICENSE" in {path.name for path in store.iterdir()}
    link.parent.mkdir()
    link.symlink_to(Path("..") / (store / platform["bin"]).relative_to(tmp_path))
    packages = {"PYTHONPATH": sysconfig.get_path("purelib"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for installs in (True, False):
        done = subprocess.run([str(link), "--version"], env=outside(**packages), text=True, capture_output=True)
        assert (done.returncode, done.stdout) == (0, f"swerl {RELEASE}\n"), done.stderr
        assert ("installs its Python packages" in done.stderr) is installs
    (environment,) = (tmp_path / "cache/swerl/kubectl-plugin").iterdir()
    (environment / "complete").unlink()  # as an interrupted installation leaves it
    again = subprocess.run([str(link), "--version"], env=outside(**packages), text=True, capture_output=True)
    assert again.returncode == 0 and (environment / "complete").is_file()
