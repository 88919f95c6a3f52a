"""An episode while it runs, for the built-in loop and for black-box agents.

Guarantees: every ending is an exception and is reported in the Episode. An infrastructure failure ends it with
`infrastructure_error`, a template that does not render with `prompt_failed`. A sandbox that the agent's own commands
destroyed (memory, disk, process 1, the session's files) ends it with `sandbox_destroyed`, the policy's failure.
The agent begins, and the model is asked, only in a sandbox whose work folder has a repository.
After any other ending, the patch is how the work tree differs from the tree that the agent got, if the sandbox still
answers.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from swerl_api import AgentSpec

from swerl_agent.sandbox import CommandResult, SandboxError

from .artifacts import live_path
from .baseline import Patch
from .command_runner import CommandRunner
from .engine import EngineError
from .episode import INFRASTRUCTURE_ERROR, PROMPT_FAILED, SANDBOX_DESTROYED, Episode
from .live import LiveFile
from .parsing import is_valid_patch
from .prompts import PromptError
from .protocol import agent_protocol
from .request import EpisodeRequest
from .scrub import scrub_tests
from .tokenizer_folder import TokenizerError
from .workspace import Workspace, step_record


class EpisodeEnded(Exception):
    """An episode's regular end."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class EpisodeRun(ABC):
    """The parts that every episode shares around the agent's acting."""

    def __init__(self, request: EpisodeRequest, session: CommandRunner, spec: AgentSpec, *, agent_name: str) -> None:
        task = request.task
        self.request, self.spec = request, spec
        self.protocol = agent_protocol(spec)
        self.workspace = Workspace(session, spec, request.workdir)
        self.deadline = asyncio.timeout(spec.episode_timeout_seconds)
        self.episode = Episode(
            task.instance_id,
            request.group,
            request.index,
            image=session.image,
            agent_name=agent_name,
            timings={"model": 0.0, "environment": 0.0},
        )
        self._session, self._acted = session, False
        self._live: LiveFile | None = None

    @abstractmethod
    async def act(self) -> None:
        """Act until EpisodeEnded, SandboxError, EngineError, PromptError or TokenizerError is raised."""

    async def run(self) -> Episode:
        """The whole episode, given to `on_end` at its end; cancellation and programming errors are raised then."""
        self._open_live_file()
        try:
            with self.timed("total"), self._reported():
                await scrub_tests(self._session, self.request.task.hidden_paths)
                await self.workspace.baseline.check()
                self.workspace.baseline.begin()  # the model answers meanwhile
                await self._act_in_time()
                await self._fall_back_to_diff()
        finally:
            try:
                await self.workspace.baseline.close()
            finally:
                self.report(self.episode.exit_status)
                if self.request.on_end:
                    self.request.on_end(self.episode)
        return self.episode

    def messages(self) -> Sequence[Mapping[str, str]]:
        """The conversation so far."""
        return self.episode.messages

    def report(self, state: str) -> None:
        """Write the episode's state and what is new to its live file, if it has one."""
        if self._live:
            self._live.report(state, self.messages(), self.episode.commands)

    def _open_live_file(self) -> None:
        if self.request.live is not None:
            names = ("instance_id", "group", "index", "agent_name", "image")
            about = {name: getattr(self.episode, name) for name in names}
            self._live = LiveFile(live_path(self.request.live, self.episode), about)

    def seconds_left(self) -> float:
        """Seconds until the episode's deadline."""
        return (self.deadline.when() or 0.0) - asyncio.get_running_loop().time()

    async def execute(
        self,
        command: str,
        *,
        step: int,
        action: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int | None = None,
    ) -> CommandResult:
        """Run and record a command of answer `step`; `action` is the model's own command where `command` adds to it.

        Raises SandboxError.
        """
        started = time.time()
        with self.timed("environment"):
            await self.workspace.baseline.ready()
            self._acted = True
            result = await self.workspace.execute(
                command, seconds_left=self.seconds_left(), cwd=cwd, env=env, max_output=max_output
            )
        if result.run_seconds is not None:
            self._add_seconds("exec", result.duration - result.run_seconds)
        self.episode.commands.append(step_record(step, command if action is None else action, result, started))
        return result

    async def take_submission(self, result: CommandResult) -> None:
        """Take the output of the submitting command as the patch."""
        with self.timed("diff"):
            patch = await self.workspace.submitted(result)
        self._take(patch, "submission")

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the seconds inside to the episode's timings; viewers see the phase."""
        self.report(phase)
        started = time.monotonic()
        try:
            yield
        finally:
            self._add_seconds(phase, time.monotonic() - started)

    def _add_seconds(self, phase: str, seconds: float) -> None:
        self.episode.timings[phase] = self.episode.timings.get(phase, 0.0) + seconds

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Reports errors inside in the episode; raises those that no episode ends with."""
        episode = self.episode
        try:
            yield
        except (SandboxError, EngineError) as error:
            episode.exit_status = self._exit_status(error)
            episode.infrastructure_error = episode.exit_status == INFRASTRUCTURE_ERROR
            episode.error_code, episode.error = error.code, f"{type(error).__name__}: {error}"
        except (PromptError, TokenizerError) as error:
            episode.exit_status = episode.error_code = PROMPT_FAILED
            episode.error = str(error)
        except asyncio.CancelledError:
            episode.exit_status = episode.error_code = "cancelled"
            episode.error = "cancelled from outside"
            raise
        except Exception as error:
            episode.exit_status, episode.error_code = "error", "internal"
            episode.error = f"{type(error).__name__}: {error}"
            raise

    def _exit_status(self, error: SandboxError | EngineError) -> str:
        destroyed = self._acted and isinstance(error, SandboxError) and error.by_commands
        return SANDBOX_DESTROYED if destroyed else INFRASTRUCTURE_ERROR

    async def _act_in_time(self) -> None:
        try:
            async with asyncio.timeout(self.spec.episode_timeout_seconds) as self.deadline:
                await self.act()
        except EpisodeEnded as end:
            self.episode.exit_status = end.status
        except TimeoutError:
            if not self.deadline.expired():
                raise
            self.episode.exit_status = "episode_timeout"

    async def _fall_back_to_diff(self) -> None:
        if self.episode.patch is None and self.episode.turns:
            with self.timed("diff"):
                patch = await self.workspace.baseline.patch()
            self._take(patch, "git_diff_fallback")

    def _take(self, patch: Patch, source: str) -> None:
        self.episode.patch_left_out = list(patch.left_out)
        self.episode.timings["baseline"] = self.workspace.baseline.seconds
        if is_valid_patch(patch.text):
            self.episode.patch, self.episode.patch_source = patch.text, source
