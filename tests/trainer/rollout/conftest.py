"""A worker whose sandboxes, engine, judge and grading are in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from swerl_agent.episode import BuiltinAgent, EngineError, Generation, Prompts
from swerl_agent.grading import Verdict
from swerl_agent.sandbox import CommandResult, NodeCounts, PodGone
from swerl_agent.tasks import GroundTruth, Task
from swerl_api import AgentSpec
from swerl_kube import Unreachable
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.group import GroupRequest, Rollout
from swerl_trainer.rollout.worker import Worker

PATCH = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
TASK = Task("t-1", "o/r", "0" * 40, "1", "fix it", "image", GroundTruth("", "", "", ("t",), ()))
REQUEST = GroupRequest("g0", "train", 0, 2, 1, 1.0)
MEMBERS = (0, 1)


async def run(worker: Worker, request: GroupRequest, members: tuple[int, ...], index: int, retry: int) -> Rollout:
    """One member, from its sandbox to its verdict."""
    await worker.run_episode(request, members, index, retry)
    return await worker.rollout(request, index, retry)


class CharacterTokenizer:
    """A tokenizer whose tokens are characters."""

    stop_token_ids = (0,)
    turn_end_id = tool_end_id = 0
    vocab_size = 1000

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in ids if i)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return [1]

    def delta(self, *contents: str, role: str = "user") -> list[int]:
        return [1]


@dataclass
class Fakes:
    """Everything around the worker, and what it was asked for."""

    events: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    answer: str = "A"  # the engine, to every prompt
    broken_engine: bool = False
    votes: int = 0  # the judge was asked for
    broken_judge: bool = False
    verdict: str = "resolved"
    generation_gate: asyncio.Event | None = None
    release_started: asyncio.Event = field(default_factory=asyncio.Event)
    releasing: asyncio.Event | None = None  # a release ends when it is set
    age: float = 0.0
    idle_seconds: float = 7.0
    pending: int = 0  # sandboxes
    waits: Mapping[str, float] = field(default_factory=lambda: {"queue": 1.0, "pull": 2.0})
    refused: bool = False  # the API server refuses sandboxes
    image: str = "repository/task@sha256:0123"

    async def declare(self, name: str, task: Task, replicas: int) -> Fakes:
        self.events.append(f"declare {name} {replicas}")
        if self.refused:
            raise Unreachable("connection refused")
        return self

    def counts(self) -> tuple[int, int]:
        return self.pending, 0

    def by_node(self) -> NodeCounts:
        return {"": {"pending": self.pending}}

    async def claim(self, ordinal: int) -> Fakes:
        if ordinal in self.lost:
            raise PodGone("evicted")
        return self

    async def release(self, ordinal: int) -> None:
        self.events.append(f"release {ordinal}")
        self.release_started.set()
        if self.releasing is not None:
            await self.releasing.wait()
            self.events.append(f"released {ordinal}")

    async def delete(self) -> None:
        self.events.append("delete")

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = 0,
    ) -> CommandResult:
        return CommandResult("c", 0, PATCH, b"", len(PATCH), 0, False, 0.0)

    @asynccontextmanager
    async def without_profile(self) -> AsyncIterator[Fakes]:
        yield self

    async def generate(
        self,
        input_ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        routing_key: str,
        seed: int | None = None,
    ) -> Generation:
        if self.generation_gate is not None:
            await self.generation_gate.wait()
        if self.broken_engine:
            raise EngineError("no answer")
        ids = [*map(ord, self.answer), 0]
        return Generation(ids, [-(position + 1) / 10 for position in range(len(ids))], "stop", [("1", 0, len(ids))])

    async def vote(self, input_ids: Sequence[int], **sampling: object) -> Generation:
        self.votes += 1
        if self.broken_judge:
            raise EngineError("no vote")
        text = r"\boxed{1}" if self.votes % 3 else r"\boxed{-1}"
        return Generation([ord(c) for c in text], [-0.1] * len(text), "stop")

    async def grade(self, task: Task, patch: str, *, fresh: bool = False, image: str = "") -> Verdict:
        self.events.append("grade again" if fresh else "grade")
        return Verdict(self.verdict, {}, 0.5, False, "said so")  # type: ignore[arg-type]


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


def builtin(fakes: Fakes, **limits: float) -> BuiltinAgent:
    """The built-in agent with one step, and the other limits that are given."""
    prompts = Prompts("s", "{{ task }}", "again", "{{ output.output }}")
    return BuiltinAgent(fakes, CharacterTokenizer(), prompts, AgentSpec(step_limit=1).model_copy(update=limits))  # type: ignore[arg-type]


@pytest.fixture
def dependencies(fakes: Fakes, tmp_path: Path) -> WorkerDependencies:
    tasks = {"train": [TASK], "evaluation": [TASK]}
    return WorkerDependencies(tasks, fakes, fakes, builtin(fakes), tmp_path, "x-{}".format)


@pytest.fixture
def worker(dependencies: WorkerDependencies) -> Worker:
    return Worker(dependencies)
