"""The light environment: made on a Debian whose Python cannot make one yet, and entered by any other Python."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from demo import environment
from demo.cluster import ROOT

PYTHON = """#!/bin/sh
echo "$*" >>"$0.calls"
[ -e "$0.package" ] || { echo "ensurepip is not available" >&2; exit 1; }
"""
APT = """#!/bin/sh
case "$*" in install*python3-venv) : >"${0%/*}/python.package" ;; esac
"""


# Stands for the interpreter of the light environment.
INSIDE = """#!/bin/sh
echo "$@"
echo "$PYTHONPATH"
"""


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_missing_package_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = program(tmp_path / "python", PYTHON)
    program(tmp_path / "apt-get", APT)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    environment._make(str(python), tmp_path / "venv")
    assert len((tmp_path / "python.calls").read_text().splitlines()) == 2


def test_without_apt_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = program(tmp_path / "python", PYTHON)
    monkeypatch.setattr("cluster.preflight.shutil.which", lambda _: None)
    with pytest.raises(SystemExit, match="python3-venv"):
        environment._make(str(python), tmp_path / "venv")


@pytest.fixture(scope="module")
def python_without_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with nothing but its standard library."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A $SWERL_HOME whose environment is made already."""
    folder = tmp_path / "home"
    (folder / "venv" / "bin").mkdir(parents=True)
    pins = (ROOT / "requirements" / "dev.txt").read_bytes()
    (folder / "venv" / environment.DIGEST_FILE).write_text(hashlib.sha256(pins).hexdigest())
    program(folder / "venv" / "bin" / "python", INSIDE)
    monkeypatch.setenv("SWERL_HOME", str(folder))
    return folder


def typed(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a user gets who types this in the checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SWERL_CLUSTER_NAME")}
    return subprocess.run([str(python), *arguments], cwd=ROOT, env=kept, capture_output=True, text=True)


def test_python_without_packages_reports_how_to_build_images(python_without_packages: Path, home: Path) -> None:
    assert typed(python_without_packages, "-c", "import yaml").returncode == 1
    done = typed(python_without_packages, "-m", "images", "--help")
    assert done.returncode == 0 and "usage: python3 -m images" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "command", [["images", "operator", "--engine", "docker"], ["demo", "down"]], ids=["images", "demo"]
)
def test_python_without_packages_continues_in_the_environment(
    python_without_packages: Path, home: Path, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "docker", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = typed(python_without_packages, "-m", *command)
    sources = ":".join(f"{ROOT}/{folder}" for folder in ("crds", "operator", "agent", "trainer"))
    assert (done.returncode, done.stdout) == (0, f"-m {' '.join(command)}\n{sources}:{ROOT}\n"), done.stderr


def test_missing_image_builder_is_reported_before_the_environment_is_made(
    python_without_packages: Path, tmp_path: Path
) -> None:
    kept = {"PATH": str(tmp_path / "empty"), "SWERL_HOME": str(tmp_path / "home")}
    done = subprocess.run([python_without_packages, "-m", "images"], cwd=ROOT, env=kept, capture_output=True, text=True)
    assert done.returncode == 1 and "no buildah on PATH" in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("method", ["{0}/home", "{0}/elsewhere/../home", "{0}/link"])
def test_process_in_the_environment_is_not_replaced(
    home: Path, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("SWERL_HOME", method.format(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(home / "venv"))
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it was replaced again"))
    monkeypatch.setattr(sys, "path", ["elsewhere"])
    monkeypatch.setattr(os, "environ", {"SWERL_HOME": os.environ["SWERL_HOME"]})
    environment.enter_environment("demo", [])
    assert sys.path == [*environment.SOURCES, "elsewhere"]
    assert os.environ["PYTHONPATH"].split(":") == environment.SOURCES
