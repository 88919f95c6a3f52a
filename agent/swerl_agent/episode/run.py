"""An episode while it runs, whoever acts in it: the built-in loop or an agent from outside.

Guarantees: how an episode ends is an exception, and each ending is reported in the Episode; an infrastructure failure
ends it with `infrastructure_error`, a template that does not render with `prompt_failed`; whatever else ended it, a
patch is taken from the work tree if none was submitted and the sandbox still answers.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from swerl_agent.sandbox import CommandResult, SandboxError
from swerl_agent.tasks import Task

from .engine import EngineError
from .episode import PROMPT_FAILED, AgentLimits, Episode
from .parsing import is_valid_patch
from .prompts import PromptError
from .scrub import scrub_tests
from .tokenizer_folder import TokenizerError
from .workspace import Session, Workspace, step_record


class StepScoring(Protocol):
    """Takes the steps of one episode to judge them beside it; `swerl_agent.judge.Scoring` is one."""

    def step(self, number: int, answer: str, commands: Sequence[dict[str, Any]], *, submits: bool = False) -> None:
        """Answer `number` (from 0) and the records of its commands, of which the last may submit; returns at once and
        never raises."""
        ...


class Agent(Protocol):
    """Acts in episodes."""

    async def run_episode(
        self,
        task: Task,
        session: Session,
        *,
        group: str,
        index: int,
        temperature: float,
        scoring: StepScoring | None = None,
        on_end: Callable[[Episode], None] | None = None,
    ) -> Episode:
        """One episode at `task` in the sandbox of `session`, whatever ended it; arguments as in `run_episode`."""
        ...


class Ended(Exception):
    """An episode's regular end."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class EpisodeRun(ABC):
    """What every episode does around the acting."""

    def __init__(
        self, task: Task, session: Session, limits: AgentLimits, *, group: str, index: int, agent_name: str
    ) -> None:
        self.limits = limits
        self.workspace = Workspace(session, limits)
        self.deadline = asyncio.timeout(limits.episode_timeout)
        self.scrub_tests = partial(scrub_tests, session, task.hidden_paths)
        self.episode = Episode(
            task.instance_id,
            group,
            index,
            image=session.image,
            agent_name=agent_name,
            timings={"model": 0.0, "environment": 0.0},
        )

    @abstractmethod
    async def act(self) -> None:
        """Ask, run, show, until Ended, SandboxError, EngineError, PromptError or TokenizerError is raised."""

    async def run(self) -> Episode:
        """The whole episode; cancellation and programming errors are raised once the episode says so."""
        episode = self.episode
        with self.timed("total"):
            try:
                await self.scrub_tests()
                await self._act_in_time()
                await self._fall_back_to_diff()
            except (SandboxError, EngineError) as error:
                infrastructure = isinstance(error, EngineError) or error.infrastructure
                episode.exit_status = "infrastructure_error" if infrastructure else "error"
                episode.infrastructure_error, episode.error_code = infrastructure, error.code
                episode.error = f"{type(error).__name__}: {error}"
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
        return episode

    def seconds_left(self) -> float:
        """Until the episode must end."""
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
        """Run and record a command of answer `step`; `action` is what the model asked for, when `command` says more.

        Raises SandboxError.
        """
        started = time.time()
        with self.timed("environment"):
            result = await self.workspace.execute(
                command, seconds_left=self.seconds_left(), cwd=cwd, env=env, max_output=max_output
            )
        if result.run_seconds is not None:
            self._spent("exec", result.duration - result.run_seconds)
        self.episode.steps.append(step_record(step, command if action is None else action, result, started))
        return result

    async def take_submission(self, result: CommandResult) -> None:
        """The patch is what the submitting command printed."""
        with self.timed("diff"):
            patch = await self.workspace.submitted(result)
        self._take(patch, "submission")

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the seconds inside to the episode's timings."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._spent(phase, time.monotonic() - started)

    def _spent(self, phase: str, seconds: float) -> None:
        self.episode.timings[phase] = self.episode.timings.get(phase, 0.0) + seconds

    async def _act_in_time(self) -> None:
        try:
            async with asyncio.timeout(self.limits.episode_timeout) as self.deadline:
                await self.act()
        except Ended as end:
            self.episode.exit_status = end.status
        except TimeoutError:
            if not self.deadline.expired():
                raise
            self.episode.exit_status = "episode_timeout"

    async def _fall_back_to_diff(self) -> None:
        if self.episode.patch is None and self.episode.turns:
            with self.timed("diff"):
                patch = await self.workspace.diff()
            self._take(patch, "git_diff_fallback")

    def _take(self, patch: str, source: str) -> None:
        if is_valid_patch(patch):
            self.episode.patch, self.episode.patch_source = patch, source
