"""Building the site: collect the pages in a folder, run mkdocs there in its own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from cluster.layout import swerl_home
from demo.environment import ensure

from .api_pages import api_pages
from .command_page import command_page
from .metric_page import metric_page
from .pages import ROOT, collect

HERE = Path(__file__).parent
REFERENCE = "docs/reference"


def build(folder: Path) -> None:
    """The site in `folder`, which is replaced. Raises SystemExit with mkdocs' warnings, which are errors."""
    python = ensure(swerl_home() / "docs-venv", ROOT / "requirements" / "docs.txt")
    with tempfile.TemporaryDirectory(prefix="swerl-docs-") as scratch:
        sources = Path(scratch) / "sources"
        collect(sources, generated=reference_pages())
        shutil.copytree(HERE / "assets", sources / "assets")
        (Path(scratch) / "mkdocs.yml").write_text(yaml.safe_dump(configuration()))
        command = [str(python), "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder.absolute())]
        done = subprocess.run(
            command, cwd=scratch, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(f"the documentation has errors; correct the pages named here:\n{done.stdout}{done.stderr}")


def configuration() -> dict[str, Any]:
    """mkdocs' configuration, with every decision in the navigation."""
    found: dict[str, Any] = yaml.safe_load((HERE / "mkdocs.yml").read_text())
    [decisions] = [entry["Decisions"] for entry in found["nav"] if "Decisions" in entry]
    decisions += [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    return found


def reference_pages() -> dict[str, str]:
    """Text of each generated page by its path."""
    pages = api_pages() | {"commands": command_page(), "series": metric_page()}
    return {f"{REFERENCE}/{name}.md": text for name, text in pages.items()}
