"""Eval scripts as the last `swebench` that has specs of repositories renders them.

Run as a program with that package on its path: test patches by name as JSON in, scripts by repository, version and name
of the patch out.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from cluster.layout import swerl_home

VERSION = "4.1.0"
BASE = "a" * 40

Scripts = Mapping[str, Mapping[str, Mapping[str, str]]]


def package() -> Path:
    """A folder with the package, fetched once; several processes may ask at the same time."""
    home = swerl_home() / "sdists"
    folder = home / f"swebench-{VERSION}-wheel"
    if not folder.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, f"swebench=={VERSION}"]
            subprocess.run(pip, check=True, timeout=300)
            with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as archive:
                archive.extractall(Path(scratch) / "package")
            try:
                (Path(scratch) / "package").rename(folder)
            except OSError:
                assert folder.is_dir(), "another process has made it"
    return folder


def published_scripts(patches: Mapping[str, str]) -> Scripts:
    """The scripts of all Python repositories that the package can test."""
    program = f"import sys; sys.path[:0] = [{str(package())!r}]; from {__name__} import main; main()"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        input=json.dumps(patches),
        capture_output=True,
        text=True,
        check=True,
    )
    scripts: Scripts = json.loads(done.stdout.splitlines()[-1])
    return scripts


def main() -> None:
    """Be that program."""
    constants = importlib.import_module("swebench.harness.constants")
    scripts = importlib.import_module("swebench.harness.test_spec.create_scripts")
    patches = json.load(sys.stdin)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for repo, versions in constants.MAP_REPO_VERSION_TO_SPECS.items():
        if constants.MAP_REPO_TO_EXT[repo] != "py":
            continue
        for version, specs in versions.items():
            if "test_cmd" not in specs:
                continue
            for name, patch in patches.items():
                row = {"repo": repo, "version": version, "base_commit": BASE, "test_patch": patch}
                lines = scripts.make_eval_script_list(row, specs, "testbed", "/testbed", BASE, patch)
                text = "\n".join(["#!/bin/bash", "set -uxo pipefail", *lines]) + "\n"  # as TestSpec.eval_script
                found.setdefault(repo, {}).setdefault(version, {})[name] = text
    print(json.dumps(found))
