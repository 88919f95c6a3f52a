"""Waiting times of a new user on a bare machine: the first training step of `make demo`, and all of `make test`.

Each of the two commands runs in a clone of the last commit with nothing built and no cache of Go, pip or images;
Debian's packages alone may be there already. `make test` runs once more with what it has built. Takes one to two
hours and 30 GB; everything is removed afterwards. QUICK=1 leaves `make test` out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.layout import swerl_home
from demo.report import read_metrics
from images.catalogue import ROOT
from tests.bench.figures import QUICK, Figure, conclude
from tests.conftest import without_make

MINUTE = 60
FIRST_STEP_MIN = 15.0


class FreshCheckout:
    """A home, a clone and caches of their own, all empty."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.home, self.clone = folder, folder / "swerl", folder / "checkout"
        self._run = Path(f"/run/{folder.name}")
        folder.mkdir(parents=True)
        subprocess.run(["git", "clone", "-q", str(ROOT), str(self.clone)], check=True)
        storage = folder / "storage.conf"
        storage.write_text(f'[storage]\ndriver="overlay"\ngraphroot="{folder}/engine"\nrunroot="{self._run}"\n')
        ours = str(swerl_home())
        path = [place for place in os.environ["PATH"].split(os.pathsep) if not place.startswith(ours)]
        caches = {"GOPATH": "go", "GOMODCACHE": "go/pkg/mod", "GOCACHE": "go-build", "XDG_CACHE_HOME": "cache"}
        places = {"SWERL_HOME": self.home, "PIP_CACHE_DIR": folder / "pip", "CONTAINERS_STORAGE_CONF": storage}
        places |= {name: folder / place for name, place in caches.items()}
        kept = {name: value for name, value in without_make().items() if name not in ("KUBECONFIG", "QUICK")}
        self._environment = kept | {"PATH": os.pathsep.join(path)} | {k: str(v) for k, v in places.items()}

    def run(self, command: str) -> float:
        """Seconds that `command` took; its output goes to this one's. Raises CalledProcessError when it fails."""
        begun = time.monotonic()
        subprocess.run(command, shell=True, cwd=self.clone, env=self._environment, check=True)
        return time.monotonic() - begun

    def remove(self) -> None:
        """Remove cluster, folders and the image engine's mounts."""
        subprocess.run("make cluster-down", shell=True, cwd=self.clone, env=self._environment)
        shutil.rmtree(self._run, ignore_errors=True)
        shutil.rmtree(self._folder)


@contextmanager
def measure_fresh_checkout(name: str) -> Iterator[FreshCheckout]:
    """One on this machine, in the user's home folder, where there is room."""
    comes = FreshCheckout(Path.home() / f"bare-{name}-{os.getpid()}")
    try:
        yield comes
    finally:
        comes.remove()


def until_the_first_step() -> Figure:
    """Minutes from `make demo` until the first training step was done."""
    with measure_fresh_checkout("demo") as user:
        begun = time.time()
        whole = user.run("make demo")
        [first, *_] = read_metrics(user.home / "demo" / "output")
        print(f"make demo: {whole / MINUTE:.1f} min; {json.loads((user.home / 'demo/summary.json').read_text())}")
    return Figure("bare_first_step_min", (first["time"] - begun) / MINUTE, FIRST_STEP_MIN)


def tests() -> list[Figure]:
    """Minutes of `make test`, bare and again."""
    with measure_fresh_checkout("test") as user:
        bare, again = user.run("make test"), user.run("make test")
    return [Figure("bare_test_min", bare / MINUTE, 60), Figure("warm_test_min", again / MINUTE, 25)]


def main() -> int:
    found = [until_the_first_step()]
    if not QUICK:
        found += tests()
    return conclude(found, swerl_home() / "bench-bare" / "figures.json")


if __name__ == "__main__":
    sys.exit(main())
