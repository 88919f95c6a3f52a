"""Episodes of black-box agents: an agent gets one OpenAI-compatible endpoint and one sandbox.

Guarantees: such an Episode has the same fields, exit statuses and fallbacks as one of the built-in loop. A lost engine
or sandbox ends it at once and is never blamed on the agent. After its end, no request of the agent reaches engine or
sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from swerl_api import AgentSpec

from swerl_agent.episode import CommandRunner, Episode, EpisodeRequest, PromptError
from swerl_agent.episode.run import EpisodeEnded, EpisodeRun
from swerl_agent.sandbox import CommandResult, SandboxError
from swerl_agent.tasks import TaskView

from .application import Endpoint, Endpoints
from .recording import Recording

MAX_OUTPUT = 1 << 18  # bytes of a command's output that reach the agent; a submitted patch is such output


@dataclass(frozen=True)
class AgentExit:
    """How an agent ended, as it reports it."""

    exit_status: str  # of an Episode: submitted, max_steps, repeated_format_errors, ..., error
    submission: CommandResult | None = None  # result of the command whose output is the patch
    format_errors: int = 0  # answers without a command to run
    error: str | None = None


class AgentShell(Protocol):
    """The sandbox as the agent uses it; every command is recorded."""

    async def run(
        self, command: str, *, action: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command for at most commandTimeoutSeconds; raises SandboxError.

        `action` is the model's own command where `command` adds to it.
        """
        ...


class BlackBoxAgent(Protocol):
    """A program that works on tasks with the model behind an endpoint."""

    async def run(self, request: BlackBoxRequest) -> AgentExit:
        """Work on the task; cancellation ends it.

        Raises PromptError for prompts that do not render. Any other exception is a failure of the agent.
        """
        ...


@dataclass(frozen=True)
class BlackBoxRequest:
    """What a black-box agent gets for one episode."""

    task: TaskView
    endpoint: Endpoint
    shell: AgentShell
    spec: AgentSpec
    workdir: str  # folder of the repository in the sandbox


async def run_black_box(
    request: EpisodeRequest,
    session: CommandRunner,
    gateway: Endpoints,
    agent: BlackBoxAgent,
    spec: AgentSpec,
    *,
    agent_name: str = "",
) -> Episode:
    """The finished episode of `agent`; `agent_name` is its name in the episode, by default its class."""
    name = agent_name or type(agent).__name__
    opened = gateway.episode(spec, routing_key=request.routing_key, temperature=request.temperature)
    with opened as (endpoint, recording):
        return await _BlackBoxRun(request, session, agent, endpoint, recording, spec, agent_name=name).run()


class _BlackBoxRun(EpisodeRun):
    def __init__(
        self,
        request: EpisodeRequest,
        session: CommandRunner,
        agent: BlackBoxAgent,
        endpoint: Endpoint,
        recording: Recording,
        spec: AgentSpec,
        *,
        agent_name: str,
    ) -> None:
        super().__init__(request, session, spec, agent_name=agent_name)
        self.agent, self.endpoint, self.recording = agent, endpoint, recording
        self.episode.segments = recording.segments
        self.shell = _RecordedShell(self)

    async def act(self) -> None:
        agent = asyncio.create_task(self.agent.run(self._agent_request()))
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
        await self._end(self._agent_exit(agent))

    def messages(self) -> Sequence[Mapping[str, str]]:
        """See EpisodeRun: those of the newest answer's conversation."""
        return self.recording.messages

    def _agent_request(self) -> BlackBoxRequest:
        task, workdir = self.request.task.visible(), self.request.workdir
        return BlackBoxRequest(task, self.endpoint, self.shell, self.spec, workdir)

    def _agent_exit(self, agent: asyncio.Task[AgentExit]) -> AgentExit:
        error = agent.exception()
        if isinstance(error, PromptError):
            raise error
        return AgentExit("error", error=f"{type(error).__name__}: {error}") if error else agent.result()

    async def _end(self, agent_exit: AgentExit) -> None:
        self.episode.format_errors = agent_exit.format_errors
        if agent_exit.submission:
            await self.take_submission(agent_exit.submission)
        status = agent_exit.exit_status
        if status == "error":
            status = self.recording.refused or status
        if status in ("error", "prompt_too_long"):
            self.episode.error = agent_exit.error
        raise EpisodeEnded(status)

    def _collect(self) -> None:
        self.episode.messages, self.episode.turns = self.recording.messages, self.recording.answers
        self.episode.timings["model"] = self.recording.seconds
        self.episode.usage = self.recording.usage


class _RecordedShell:
    """Runs the agent's commands until it is closed; `lost` is the error that ended the sandbox."""

    def __init__(self, episode: _BlackBoxRun) -> None:
        self._episode = episode
        self._running: set[asyncio.Task[CommandResult]] = set()
        self._closed = False
        self.lost: asyncio.Future[SandboxError] = asyncio.get_running_loop().create_future()

    async def run(
        self, command: str, *, action: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        if self._closed:
            raise ConnectionError("the episode has ended and its sandbox is closed")
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
            result = await self._episode.execute(
                command, step=step, action=action, cwd=cwd, env=env, max_output=MAX_OUTPUT
            )
            self._episode.report("model")
            return result
        except SandboxError as error:
            if not self.lost.done():
                self.lost.set_result(error)
            raise
