"""The light environment on a Debian whose Python cannot make one yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo import environment

PYTHON = """#!/bin/sh
echo "$*" >>"$0.calls"
[ -e "$0.package" ] || { echo "ensurepip is not available" >&2; exit 1; }
"""
APT = """#!/bin/sh
case "$*" in install*python3-venv) : >"${0%/*}/python.package" ;; esac
"""


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_missing_package_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
