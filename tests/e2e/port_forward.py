"""Ports of the cluster on this machine."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from demo.cluster import DemoCluster
from tests.ports import free_port


@contextmanager
def forwarded(cluster: DemoCluster, namespace: str, target: str, port: int) -> Iterator[int]:
    """The local port that leads to `port` of `target`, also after its Pod was replaced or did not listen yet."""
    local, over, running = free_port(), threading.Event(), list[subprocess.Popen[bytes]]()
    place = ["port-forward", "-n", namespace, target, f"{local}:{port}"]

    def forward() -> None:
        while not over.is_set():
            quiet = subprocess.DEVNULL
            command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), *place]
            with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
                running[:] = [process]
                if over.is_set():
                    process.terminate()
            over.wait(1)

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield local
    finally:
        over.set()
        for process in running:
            process.terminate()
        thread.join()
