"""What the trajectories of one way came to: times, and what they cost machine and API server."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swerl_kube import KubeClient

from cluster.layout import Cluster
from tests.bench import api_writes
from tests.bench.exec_peers import machine
from tests.bench.trajectories.commands import commands
from tests.bench.trajectories.way import Way

SETTLE_SECONDS = 2.0  # the node's end of a teardown
IDLE_SECONDS = 5.0  # for which the machine is watched at rest
QUIET_CORES = 0.5  # consumption at rest above which other work would be charged to a way
COLUMNS = ["commands", "at_once", "way", "p50_s", "cmds_per_s", "cpu_s", "apiserver_cpu_s", "writes", "execs"]


@dataclass(frozen=True)
class Load:
    """How many commands a trajectory has, and how many trajectories start together."""

    commands: int
    at_once: int


@dataclass
class Trajectories:
    """Of one way at one load, over all rounds."""

    load: Load
    seconds: list[float] = field(default_factory=list)  # from the request until the sandbox was gone, one each
    wall: float = 0.0  # seconds of all rounds
    machine: float = 0.0  # processor seconds, those of rest taken off; NaN on a machine with other work
    apiserver: float = 0.0  # likewise
    writes: int = 0
    execs: int = 0  # streams that the API server passed on

    @property
    def median(self) -> float:
        """Seconds of a trajectory."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Commands per second, starts and ends included."""
        return self.load.commands * len(self.seconds) / self.wall

    def each(self, total: float) -> float:
        """The share of one trajectory."""
        return total / len(self.seconds)


@dataclass(frozen=True)
class Spent:
    """Counters of machine and API server at one time."""

    at: float
    cpu: machine.CpuTime
    page: str  # the API server's metrics

    def since(self, before: Spent) -> tuple[float, machine.CpuTime, int, int]:
        """Seconds, processor seconds, writes and exec streams."""
        counts = [(api_writes.counted_writes(one.page), api_writes.counted_execs(one.page)) for one in (before, self)]
        (first, streams), (last, more) = counts
        writes = sum(api_writes.writes_between(first, last).values())
        return self.at - before.at, self.cpu.since(before.cpu), writes, more - streams


class Meter:
    """Reads the counters; knows what the machine spends at rest."""

    def __init__(self, client: KubeClient, cluster: Cluster) -> None:
        self._client, self._cluster = client, cluster
        self._idle_machine = self._idle_apiserver = 0.0  # cores

    async def calibrate(self) -> None:
        """Watch the machine at rest: daemons, controllers and Ray's own processes."""
        before = await self._read()
        await asyncio.sleep(IDLE_SECONDS)
        seconds, cpu, _, _ = (await self._read()).since(before)
        self._idle_machine, self._idle_apiserver = cpu.machine / seconds, cpu.daemons["apiserver"] / seconds

    async def round(self, way: Way, into: Trajectories, names: Sequence[str]) -> None:
        """Trajectories of these names at once; what prepares them and what they leave to do is counted, not timed."""
        before = await self._read()
        await way.prepare(names)
        todo, started = commands(into.load.commands), time.perf_counter()
        into.seconds += await asyncio.gather(*(_timed(way, name, todo) for name in names))
        into.wall += time.perf_counter() - started
        await asyncio.sleep(SETTLE_SECONDS)
        seconds, cpu, writes, execs = (await self._read()).since(before)
        into.machine += cpu.machine - seconds * self._idle_machine if self._idle_machine < QUIET_CORES else math.nan
        into.apiserver += cpu.daemons["apiserver"] - seconds * self._idle_apiserver
        into.writes += writes
        into.execs += execs

    async def _read(self) -> Spent:
        page = await api_writes.metrics_page(self._client)
        return Spent(time.perf_counter(), machine.cpu_time(self._cluster), page)


async def _timed(way: Way, name: str, todo: Sequence[str]) -> float:
    started = time.perf_counter()
    await way.trajectory(name, todo)
    return time.perf_counter() - started


def table(found: Mapping[tuple[Load, str], Trajectories]) -> str:
    """All columns of all ways, costs for each trajectory."""
    rows = [COLUMNS]
    for (load, name), one in found.items():
        costs = [one.each(one.machine), one.each(one.apiserver)]
        counts = [one.each(one.writes), one.each(one.execs)]
        times = [f"{one.median:.2f}", f"{one.rate:.1f}"]
        cells = [*times, *(f"{cost:.2f}" for cost in costs), *(f"{count:.1f}" for count in counts)]
        rows.append([str(load.commands), str(load.at_once), name, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
