"""The local cluster that the tests use, from below: daemons killed, stopped and started again, a Pod's cgroup."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from cluster import layout, lifecycle, process
from cluster.layout import Cluster


def cluster_of(kubeconfig: str) -> Cluster:
    """The cluster of this machine whose kubeconfig that is."""
    state = Path(kubeconfig).absolute().parent
    named = state.parent.name == "clusters"
    home, name = (state.parents[1], state.name) if named else (state.parent, layout.DEFAULT_NAME)
    found = layout.find(name, home)
    assert found is not None and found.state == state, f"{kubeconfig} is not of a local cluster that runs"
    return found


class Components:
    """By their names in `cluster.components`."""

    def __init__(self, kubeconfig: str) -> None:
        self._cluster = cluster_of(kubeconfig)

    def kill(self, name: str) -> None:
        """SIGKILL; it stays dead until `start`."""
        running = process.running(self._cluster, name)
        assert running is not None, f"{name} does not run"
        os.kill(running.pid, signal.SIGKILL)

    async def stop(self, name: str) -> None:
        """SIGTERM, and return when it is gone."""
        assert process.running(self._cluster, name) is not None, f"{name} does not run"
        await asyncio.to_thread(lifecycle.stop, self._cluster, name)

    async def start(self, name: str) -> None:
        """Return when it runs, and the API server, if it is of that, serves."""
        await asyncio.to_thread(lifecycle.restart, self._cluster, name)

    def limit_processes(self, pod_uid: str, number: int) -> None:
        """At most so many processes in that Pod, as the kubelet's podPidsLimit has it for every one."""
        everywhere = os.walk("/sys/fs/cgroup")  # unlike glob, it tolerates folders that vanish meanwhile
        [limit] = [Path(at, "pids.max") for at, _, files in everywhere if at.endswith(pod_uid) and "pids.max" in files]
        limit.write_text(str(number))
