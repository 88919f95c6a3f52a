"""Starting the cluster again and building images again after a change of code: seconds of each.

On a cluster of its own beside the one that may run, and a copy of the checkout; both are removed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cluster import layout, lifecycle
from cluster.errors import ClusterError
from cluster.layout import swerl_home
from images.catalogue import ROOT
from tests.bench.figures import QUICK, Figure, conclude

NAME = "bench-setup"
ROUNDS = 1 if QUICK else 3
CODE = {"operator": "operator/swerl_operator/__init__.py", "trainer": "trainer/swerl_trainer/__init__.py"}


def restart_seconds() -> tuple[list[float], list[float]]:
    """Seconds of `cluster up` with everything built: until the API server is ready, and until all is."""
    ready, whole = [], []
    lifecycle.up(NAME, swerl_home())
    try:
        for _ in range(ROUNDS):
            lifecycle.down(NAME, swerl_home())
            begun = time.monotonic()
            served = since(begun, is_ready)
            lifecycle.up(NAME, swerl_home())
            whole.append(time.monotonic() - begun)
            ready.append(served())
    finally:
        lifecycle.down(NAME, swerl_home(), purge=True)
    return ready, whole


def is_ready() -> bool:
    cluster = layout.find(NAME, swerl_home())
    with contextlib.suppress(ClusterError, OSError):
        return cluster is not None and lifecycle.api(cluster).text("/readyz", timeout=1) == "ok"
    return False


def since(begun: float, happened: Callable[[], bool]) -> Callable[[], float]:
    """Watches for `happened` from now on; the result waits for it and gives the seconds from `begun`."""
    seen: list[float] = []

    def watch() -> None:
        while not happened():
            time.sleep(0.05)
        seen.append(time.monotonic() - begun)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()

    def seconds() -> float:
        thread.join()
        return seen[0]

    return seconds


def rebuild_seconds(checkout: Path) -> dict[str, float]:
    """Seconds of `python3 -m images NAME`, push included, after a line was added to the code of image NAME."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    seconds = {}
    for image, path in CODE.items():
        command = [sys.executable, "-m", "images", image, "--home", str(checkout / ".home")]
        subprocess.run(command, cwd=checkout, env=environment, check=True)
        with (checkout / path).open("a") as code:
            code.write(f"# {time.time_ns()}\n")  # so that no engine has seen it
        begun = time.monotonic()
        subprocess.run(command, cwd=checkout, env=environment, check=True)
        seconds[image] = time.monotonic() - begun
    return seconds


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="swerl-bench-setup-") as folder:
        images = rebuild_seconds(Path(folder) / "checkout")
    ready, whole = restart_seconds()
    return conclude(
        [
            Figure("apiserver_again_s", max(ready), 10),
            Figure("cluster_again_s", max(whole), 60),
            *(Figure(f"{image}_image_again_s", seconds, 30) for image, seconds in images.items()),
        ],
        swerl_home() / "bench-setup" / "figures.json",
    )


if __name__ == "__main__":
    sys.exit(main())
