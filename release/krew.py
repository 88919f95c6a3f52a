"""The kubectl plugin: krew's manifest and the archive that it names.

Guarantees: the archive holds the wheel, a launcher and the license; the same inputs give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

from images.catalogue import ROOT

PLUGIN = "swerl"  # kubectl swerl
LAUNCHER = "kubectl-swerl"
SYSTEMS, ARCHITECTURES = ("linux", "darwin"), ("amd64", "arm64")
DESCRIPTION = """\
Writes, checks, submits and follows jobs (SweRLJob) and evaluations (SweEval),
says why one does not train, and runs commands in sandboxes (SweSandbox).
The cluster needs the swe-rl chart.
"""
CAVEATS = """\
Needs Python 3.11 or newer, with venv and pip. The first call installs the
plugin's Python packages into ~/.cache/swerl/kubectl-plugin.
"""


def write_archive(wheel: Path, folder: Path, version: str) -> Path:
    """The archive that krew unpacks, in `folder`."""
    path = folder / f"{LAUNCHER}-{version}.tar.gz"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for source, mode in ((ROOT / "release" / LAUNCHER, 0o755), (wheel, 0o644), (ROOT / "LICENSE", 0o644)):
            member = tarfile.TarInfo(source.name)
            member.size, member.mode = source.stat().st_size, mode
            with source.open("rb") as opened:
                archive.addfile(member, opened)
    path.write_bytes(gzip.compress(content.getvalue(), mtime=0))
    return path


def krew_manifest(archive: Path, version: str, url: str) -> dict[str, Any]:
    """The manifest of an `archive` that is downloaded from below `url`."""
    platform = {
        "selector": {
            "matchExpressions": [
                {"key": "os", "operator": "In", "values": list(SYSTEMS)},
                {"key": "arch", "operator": "In", "values": list(ARCHITECTURES)},
            ]
        },
        "uri": f"{url.rstrip('/')}/{archive.name}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "files": [{"from": "*", "to": "."}],
        "bin": LAUNCHER,
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": f"v{version}",
            "homepage": url,
            "shortDescription": "Train and evaluate software-engineering agents",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [platform],
        },
    }
