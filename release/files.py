"""The files of a release: wheel, chart, kubectl plugin, notes and checksums.

Guarantees: a wheel holds the checkout's files and nothing that an earlier build left.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

from images.catalogue import ROOT, list_files
from images.engine import BuildError, run
from release.bake import RELEASED, Release
from release.krew import PLUGIN, krew_manifest, write_archive
from release.notes import release_notes

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "crds", "operator", "agent", "trainer")  # of the wheel
SUMS = "SHA256SUMS"


def write_files(release: Release, folder: Path, url: str) -> list[Path]:
    """Every file of the release but the images, in `folder`; `url` is where users will download them."""
    wheel, chart = build_wheel(folder, release.epoch), package_chart(folder, release.version)
    archive = write_archive(wheel, folder, release.version)
    manifest = folder / f"{PLUGIN}.yaml"
    manifest.write_text(yaml.safe_dump(krew_manifest(archive, release.version, url), sort_keys=False))
    notes = folder / "notes.md"
    changelog = (ROOT / "CHANGELOG.md").read_text()
    notes.write_text(release_notes(changelog, release.version, [release.reference(name) for name in RELEASED]))
    files = [wheel, chart, archive, manifest, notes]
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / SUMS).write_text("".join(lines))
    return [*files, folder / SUMS]


def build_wheel(folder: Path, epoch: str) -> Path:
    """The wheel, in `folder`; built from a copy, because setuptools keeps deleted modules in its build folder."""
    with tempfile.TemporaryDirectory(prefix="swerl-wheel-") as name:
        copy = Path(name) / "source"
        for source in SOURCES:
            for file in list_files(ROOT / source):
                target = copy / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)
        out = Path(name) / "wheel"
        command = [str(Path(sys.executable).parent / "uv"), "build", "--wheel", "--out-dir", str(out), str(copy)]
        run(command, os.environ | {"SOURCE_DATE_EPOCH": epoch})
        (built,) = out.glob("*.whl")
        return Path(shutil.copy2(built, folder))


def package_chart(folder: Path, version: str) -> Path:
    """The chart in `folder`, as `helm install` takes it."""
    if not shutil.which("helm"):
        raise BuildError("the chart needs helm on PATH; `make cluster` installs it")
    run(["helm", "package", str(ROOT / "charts"), "--version", version, "--destination", str(folder)])
    return folder / f"swe-rl-{version}.tgz"
