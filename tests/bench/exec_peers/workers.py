"""The processes that hold a client each, and what a load through one of them costs each process.

Sockets and memory are a process's own: a load has them to itself only where its workers are started for it.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from cluster.layout import Cluster
from tests.bench.exec_peers import machine
from tests.bench.exec_peers.clients import PodTargets

SAMPLE_SECONDS = 0.25
CLOSE_SECONDS = 15.0  # that a client gets to close what it has open


@dataclass
class Load:
    """A client at one concurrency, over all rounds."""

    taken: list[float] = field(default_factory=list)  # seconds, command that succeeded by command
    wall: float = 0.0  # seconds
    client: float = 0.0  # processor seconds, as are the next three
    apiserver: float = 0.0
    kubelet: float = 0.0
    machine: float = 0.0
    sockets: int = 0  # most at once
    memory: int = 0  # bytes, most at once
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Commands per second."""
        return len(self.taken) / self.wall

    def quantile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.taken) or [math.nan]
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def per_command(self, seconds: float) -> float:
        """Milliseconds of processor time."""
        return 1e3 * seconds / len(self.taken) if self.taken else math.nan

    @property
    def median(self) -> float:
        """Milliseconds."""
        return 1e3 * statistics.median(self.taken or [math.nan])


class Worker:
    """One client's process."""

    def __init__(self, name: str, cluster: Cluster, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._cluster, self._process = cluster, process

    async def request(self, **order: Any) -> dict[str, Any]:
        """Its answer; raises RuntimeError when the process has ended."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} ended ({await self._process.wait()}); see above")
        return dict(json.loads(line))

    async def load(self, into: Load, command: str, slots: int, seconds: float) -> None:
        """Run the command in all slots, which are open, and add what it cost."""
        sampling = asyncio.create_task(self._sample(into))
        before = machine.cpu_time(self._cluster)
        answer = await self.request(do="load", command=command, slots=slots, seconds=seconds)
        cost = machine.cpu_time(self._cluster).since(before)
        sampling.cancel()
        into.taken += answer["taken"]
        into.failures += answer["failures"]
        into.wall += answer["wall"]
        into.client += answer["cpu"]
        into.apiserver += cost.daemons["apiserver"]
        into.kubelet += cost.daemons["kubelet"]
        into.machine += cost.machine

    async def _sample(self, into: Load) -> None:
        while True:
            into.memory = max(into.memory, machine.memory(self._process.pid))
            into.sockets = max(into.sockets, machine.sockets(self._process.pid))
            await asyncio.sleep(SAMPLE_SECONDS)


@asynccontextmanager
async def worker(name: str, cluster: Cluster, place: PodTargets) -> AsyncIterator[Worker]:
    """A running client; it closes what it has open and its process ends with the context."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.exec_peers.worker", name, json.dumps(asdict(place)),
        stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=64 << 20,
    )  # fmt: skip
    try:
        yield Worker(name, cluster, process)
    finally:
        assert process.stdin
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), CLOSE_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
