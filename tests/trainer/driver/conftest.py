"""A job on a local Ray cluster: real ranks, a real engine, and episodes in this process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from swerl_agent.episode import BuiltinAgent, HFTokenizer, Prompts, SGLangEngine
from swerl_agent.grading import Verdict
from swerl_agent.sandbox import CommandResult, NodeCounts
from swerl_agent.tasks import GroundTruth, Task
from swerl_trainer.job import Job
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.worker import Worker

from ..local_ray import ray_cluster

TASKS = 5
PROMPTS = Prompts("You fix code.", "{{ task }}", "One command, please.", "{{ output.output }}")
PATCH = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+{mark}\n"


def task(number: int) -> Task:
    """A task whose statement is its number."""
    return Task(f"t{number}", "o/r", "0" * 40, "1", f"task {number}", "image", GroundTruth("", "", "", ("t",), ()))


@dataclass
class LocalSession:
    """A session whose every command prints a patch that no other command prints."""

    counter: list[int]
    image: str = ""
    delay: float = 0.0  # seconds of the first command

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = 0,
    ) -> CommandResult:
        await asyncio.sleep(self.delay)
        self.delay = 0.0
        self.counter[0] += 1
        patch = PATCH.format(mark=self.counter[0]).encode()
        return CommandResult("c", 0, patch, b"", len(patch), 0, False, 0.0)

    @contextlib.asynccontextmanager
    async def without_profile(self) -> AsyncIterator[LocalSession]:
        yield self


@dataclass
class LocalSandboxes:
    """Sandboxes that cost nothing; keeps the names of those alive. Episodes get the `delays` in turn."""

    alive: set[str] = field(default_factory=set)
    declared: list[tuple[str, str]] = field(default_factory=list)
    counter: list[int] = field(default_factory=lambda: [0])
    delays: Iterator[float] = field(default_factory=lambda: itertools.repeat(0.0))

    async def declare(self, name: str, task: Task, replicas: int) -> LocalGroup:
        self.alive.add(name)
        self.declared.append((name, task.instance_id))
        return LocalGroup(self, name)

    def counts(self) -> tuple[int, int]:
        return 0, len(self.alive)

    def by_node(self) -> NodeCounts:
        return {"node-1": {"ready": len(self.alive)}}


@dataclass
class LocalGroup:
    sandboxes: LocalSandboxes
    name: str
    age: float = 0.0
    idle_seconds: float = 0.0
    waits: Mapping[str, float] = field(default_factory=dict)

    async def claim(self, ordinal: int) -> LocalSession:
        return LocalSession(self.sandboxes.counter, delay=next(self.sandboxes.delays))

    async def release(self, ordinal: int) -> None: ...

    async def delete(self) -> None:
        self.sandboxes.alive.discard(self.name)


class LocalGrading:
    """Resolves the half of all patches."""

    async def grade(self, task: Task, patch: str, *, fresh: bool = False, image: str = "") -> Verdict:
        odd = hashlib.sha256(patch.encode()).digest()[0] % 2
        return Verdict("resolved" if odd else "unresolved", {}, 0.01, False, "")


def local_worker(job: Job, router: str, sandboxes: LocalSandboxes, http: aiohttp.ClientSession) -> Worker:
    """A rollout worker in this process."""
    engine = SGLangEngine(router, http)
    return Worker(
        WorkerDependencies(
            tasks={"train": [task(i) for i in range(TASKS)], "evaluation": [task(100)]},
            sandboxes=sandboxes,
            grading=LocalGrading(),
            agent=BuiltinAgent(engine, HFTokenizer(job.paths.model), PROMPTS, job.spec.agent),
            artifacts=job.folder / "artifacts",
            sandbox_name=job.sandbox_name,
        )
    )


@dataclass
class Watcher:
    """Records the driver's log messages."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)
    traced: int = 0  # step of which a trace is requested

    async def step(self, **figures: Any) -> None:
        self.steps.append(figures)

    async def held_out(self, *, before: float | None = None, after: float | None = None) -> None:
        reported = {"before": before, "after": after}
        self.rates |= {name: rate for name, rate in reported.items() if rate is not None}

    def traces(self, step: int) -> bool:
        return step == self.traced


@pytest.fixture
def sandboxes() -> LocalSandboxes:
    return LocalSandboxes()


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


@pytest.fixture
def make_worker(sandboxes: LocalSandboxes, http: aiohttp.ClientSession) -> Callable[[Job, str], Worker]:
    return lambda job, url: local_worker(job, url, sandboxes, http)


@pytest.fixture
def local_ray() -> Iterator[None]:
    with ray_cluster():
        yield
