"""A Ray cluster of this machine, started as a Ray Pod starts its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ports import free_port

RAY_START = Path(__file__).parents[2] / "trainer" / "swerl_trainer" / "ray_start"
RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",  # a cluster for one test needs no token in the home folder
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_worker_niceness": "0",  # not behind everything else on this machine
    "PYTHONPATH": os.pathsep.join([str(RAY_START), *filter(None, sys.path)]),
}
RESOURCES = {"train": 1, "engine": 1, "rollout": 1}  # custom ones, as Ray Pods have them
START_SECONDS = 240.0


@dataclass
class LocalRay:
    """A running `ray start --block`."""

    process: subprocess.Popen[bytes]
    port: int

    def stop(self) -> None:
        """Its parts end with SIGTERM; `ray start` itself does not, and has nothing left to do then."""
        os.killpg(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def ray_cluster(resources: Mapping[str, int] = RESOURCES) -> Iterator[None]:
    """A head node with `resources`, and this process connected to it."""
    import ray

    # a short path: sockets lie in it
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray-") as folder:
        for name, value in RAY_ENVIRONMENT.items():
            patch.setenv(name, value)
        cluster = start_ray(Path(folder), resources)
        try:
            ray.init(address=f"127.0.0.1:{cluster.port}", log_to_driver=False)
            yield
        finally:
            ray.shutdown()
            cluster.stop()


def start_ray(folder: Path, resources: Mapping[str, int] = RESOURCES) -> LocalRay:
    """A head node on free ports, with `resources`; returns when it and its agents take connections."""
    port, agent, listen, environment, export = (free_port() for _ in range(5))
    log = folder / "start.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"),
                *(f"--dashboard-agent-grpc-port={agent}", f"--dashboard-agent-listen-port={listen}"),
                *(f"--runtime-env-agent-port={environment}", f"--metrics-export-port={export}"),
                *("--node-ip-address=127.0.0.1", "--include-dashboard=false", "--num-cpus=2"),
                *("--object-store-memory=100000000", f"--temp-dir={folder}", f"--resources={json.dumps(resources)}"),
            ],
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    # A driver that connects before the agents listen may wait in Ray for ever.
    while b"Ray runtime started" not in log.read_bytes() or not all(map(_taken, (listen, environment))):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)
    return LocalRay(process, port)


def _taken(port: int) -> bool:
    """Whether a process listens, at whichever address: Ray puts that of the machine in the place of 127.0.0.1."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False
