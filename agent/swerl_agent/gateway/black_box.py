"""Episodes of agents that only know an OpenAI-compatible endpoint and a sandbox.

Guarantees: such an Episode has the same fields, exit statuses and fallbacks as one of the built-in loop;
a lost engine or sandbox ends it at once and is never put down to the agent; nothing of the agent reaches the engine or
the sandbox after its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from swerl_agent.episode import AgentLimits, Episode, PromptError
from swerl_agent.episode.run import Ended, EpisodeRun
from swerl_agent.episode.workspace import Session
from swerl_agent.sandbox import CommandResult, SandboxError
from swerl_agent.tasks import Task, TaskView

from .application import Endpoint, Endpoints
from .recording import Recording

MAX_OUTPUT = 1 << 18  # bytes of a command's output that reach the agent, which may submit its patch so


@dataclass(frozen=True)
class Ending:
    """What an agent says of its end."""

    exit_status: str  # of an Episode: submitted, max_steps, repeated_format_errors, ..., error
    submission: CommandResult | None = None  # of the command whose output is the patch
    format_errors: int = 0  # answers without anything to run
    error: str | None = None


class Shell(Protocol):
    """The sandbox as the agent has it; what it runs is recorded."""

    async def run(
        self, command: str, *, action: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command for at most the episode's `command_timeout`; `action` is what the model asked for, when
        `command` says more. Raises SandboxError."""
        ...


class BlackBoxAgent(Protocol):
    """A program that attempts tasks with the model behind an endpoint."""

    async def run(self, task: TaskView, endpoint: Endpoint, shell: Shell, limits: AgentLimits) -> Ending:
        """Attempt `task`; cancellation ends it.

        Raises PromptError for prompts that do not render; what else is raised is the agent's failure.
        """
        ...


async def run_black_box(
    task: Task,
    session: Session,
    gateway: Endpoints,
    agent: BlackBoxAgent,
    limits: AgentLimits,
    *,
    group: str,
    index: int,
    temperature: float,
    agent_name: str = "",
    on_end: Callable[[Episode], None] | None = None,
) -> Episode:
    """One episode of `agent` at `task` in the sandbox of `session`; the rest is as in `run_episode`.

    `agent_name` is what the episode calls it, by default its class.
    """
    name = agent_name or type(agent).__name__
    with gateway.episode(limits, routing_key=f"{group}/{task.instance_id}", temperature=temperature) as (
        endpoint,
        recording,
    ):
        running = _BlackBoxRun(
            task, session, agent, endpoint, recording, limits, group=group, index=index, agent_name=name
        )
        try:
            return await running.run()
        finally:
            if on_end:
                on_end(running.episode)


class _BlackBoxRun(EpisodeRun):
    def __init__(
        self,
        task: Task,
        session: Session,
        agent: BlackBoxAgent,
        endpoint: Endpoint,
        recording: Recording,
        limits: AgentLimits,
        *,
        group: str,
        index: int,
        agent_name: str,
    ) -> None:
        super().__init__(task, session, limits, group=group, index=index, agent_name=agent_name)
        self.task, self.agent, self.endpoint, self.recording = task.visible(), agent, endpoint, recording
        self.episode.segments = recording.segments
        self.shell = _RecordedShell(self)

    async def act(self) -> None:
        agent = asyncio.create_task(self.agent.run(self.task, self.endpoint, self.shell, self.limits))
        try:
            ends: list[asyncio.Future[Any]] = [agent, self.recording.lost, self.shell.lost]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.recording.close()
            self.shell.close()
            agent.cancel()
            await asyncio.gather(agent, return_exceptions=True)
            self._collect()
        if not self.recording.lost.cancelled():
            raise self.recording.lost.result()
        if not self.shell.lost.cancelled():
            raise self.shell.lost.result()
        await self._conclude(self._ending(agent))

    def _ending(self, agent: asyncio.Task[Ending]) -> Ending:
        error = agent.exception()
        if isinstance(error, PromptError):
            raise error
        return Ending("error", error=f"{type(error).__name__}: {error}") if error else agent.result()

    async def _conclude(self, ending: Ending) -> None:
        self.episode.format_errors = ending.format_errors
        if ending.submission:
            await self.take_submission(ending.submission)
        status = ending.exit_status
        if status == "error":
            status = self.recording.refused or status
        if status in ("error", "prompt_too_long"):
            self.episode.error = ending.error
        raise Ended(status)

    def _collect(self) -> None:
        self.episode.messages, self.episode.turns = self.recording.messages, self.recording.answers
        self.episode.timings["model"] = self.recording.seconds
        self.episode.usage = self.recording.usage


class _RecordedShell:
    """Runs the agent's commands until it is closed; `lost` is what ended the sandbox."""

    def __init__(self, episode: _BlackBoxRun) -> None:
        self._episode = episode
        self._running: set[asyncio.Task[CommandResult]] = set()
        self._closed = False
        self.lost: asyncio.Future[SandboxError] = asyncio.get_running_loop().create_future()

    async def run(
        self, command: str, *, action: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        if self._closed:
            raise ConnectionError("the episode is over, and so is its sandbox")
        running = asyncio.create_task(self._run(command, action, cwd, env))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await running

    def close(self) -> None:
        self._closed = True
        for running in self._running:
            running.cancel()
        self.lost.cancel()

    async def _run(
        self, command: str, action: str | None, cwd: str | None, env: Mapping[str, str] | None
    ) -> CommandResult:
        step = max(0, self._episode.recording.answers - 1)
        try:
            return await self._episode.execute(
                command, step=step, action=action, cwd=cwd, env=env, max_output=MAX_OUTPUT
            )
        except SandboxError as error:
            if not self.lost.done():
                self.lost.set_result(error)
            raise
