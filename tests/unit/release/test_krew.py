"""krew accepts the manifest of a release, and installs the plugin by the command of the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from swerl_agent import RELEASE

from cluster import build
from cluster.layout import swerl_home
from images.catalogue import ROOT
from tests.unit.docs.pages import command_of

MADE = "build/release"  # where `make release` writes, and where the page's command reads


def krew(program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of krew in `folder`, with a store of plugins of its own."""
    command = [str(build.build(swerl_home(), "krew") / program), *arguments]
    own = {"HOME": str(folder), "KREW_ROOT": str(folder / "krew"), "KREW_NO_UPGRADE_CHECK": "1"}
    return subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a release was made."""
    made = tmp_path_factory.mktemp("checkout")
    command = [sys.executable, "-m", "release", "--images", "no", "--output", str(made / MADE)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return made


def test_manifest_passes_the_check_of_the_index(folder: Path, tmp_path: Path) -> None:
    manifest = folder / MADE / "swerl.yaml"
    done = krew("validate-krew-manifest", "-skip-install", "-manifest", str(manifest), folder=folder)
    assert done.returncode == 0, done.stderr
    wrong = yaml.safe_load(manifest.read_text())
    wrong["spec"]["platforms"] *= 2
    (tmp_path / "swerl.yaml").write_text(yaml.safe_dump(wrong))
    done = krew("validate-krew-manifest", "-skip-install", "-manifest", str(tmp_path / "swerl.yaml"), folder=folder)
    assert done.returncode != 0 and "overlapping" in done.stderr


def test_documented_command_installs_the_plugin(folder: Path) -> None:
    kubectl, plugin, *arguments = command_of("docs/releases.md", "kubectl", "krew", "install")
    done = krew(f"{kubectl}-{plugin}", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    launcher = folder / "krew/bin/kubectl-swerl"
    assert os.access(launcher, os.X_OK)
    assert {"LICENSE", f"swe_rl-{RELEASE}-py3-none-any.whl"} <= {
        path.name for path in launcher.resolve().parent.iterdir()
    }
