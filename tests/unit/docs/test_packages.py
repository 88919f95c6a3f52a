"""No page, message or command installs a project of PyPI under our name: it is not ours."""

from __future__ import annotations

import re
import subprocess

from .pages import ROOT

INSTALLS = re.compile(r"\b(pip3?|uv|pipx|uvx)\b[^\n`;|]*?[\s'\"]swe[-_]rl(?![\w/.-])")
TEXTS = ("*.md", "*.py", "*.sh", "*.yaml", "*.txt", "*.ipynb", "*Dockerfile*", "Makefile")


def test_what_installs_a_project_of_pypi_is_found() -> None:
    named = ("pip install 'swe-rl[agent]'", "pip install -U swe-rl", "uv pip install swe_rl==0.1")
    ours = ("uv pip install '.[agent]'", "pip install ./swe-rl/dist/swe_rl-0.1.0-py3-none-any.whl")
    assert all(map(INSTALLS.search, named)) and not any(map(INSTALLS.search, ours))


def test_nothing_installs_our_name_from_pypi() -> None:
    listed = subprocess.run(["git", "ls-files", *TEXTS], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [name for name in listed.stdout.splitlines() if not name.endswith("test_packages.py")]
    assert len(files) > 100
    assert [name for name in files if INSTALLS.search((ROOT / name).read_text(errors="replace"))] == []
