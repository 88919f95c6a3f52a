"""The agent: ask the model, run its command, show it the output, until the episode ends.

Guarantees: how an episode ends is an exception, and each ending is reported in the Episode; an infrastructure failure
ends the episode with `infrastructure_error` and is never shown to the model; whatever ended it, a patch is taken from
the work tree if none was submitted and the sandbox still answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from swerl_agent.sandbox import CommandResult, SandboxError
from swerl_agent.tasks import Task

from .engine import Engine, EngineError
from .episode import AgentLimits, Episode
from .hiding import hide
from .parsing import find_actions, is_action, is_valid_patch, submission
from .prompts import Prompts
from .tokens import Tokenizer
from .transcript import Transcript
from .workspace import Session, Workspace, step_record


class StepScoring(Protocol):
    """Takes the steps of one episode to judge them beside it; `swerl_agent.judge.Scoring` is one."""

    def step(self, number: int, answer: str, commands: Sequence[dict[str, Any]]) -> None:
        """Answer `number` (from 0) and the records of its commands; returns at once and never raises."""
        ...


class _Ended(Exception):
    """An episode's regular end."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


async def run_episode(
    task: Task,
    session: Session,
    engine: Engine,
    tokenizer: Tokenizer,
    prompts: Prompts,
    limits: AgentLimits,
    *,
    group: str,
    index: int,
    temperature: float,
    scoring: StepScoring | None = None,
    on_end: Callable[[Episode], None] | None = None,
) -> Episode:
    """One attempt of the model at `task` in the sandbox of `session`.

    `group` names the prompt's group and is the routing key, so that its members share an engine's prefix cache.
    `scoring` is told of every step that does not submit. `on_end` gets the episode whatever ended it, cancellation and
    programming errors included (these are raised after).
    """
    agent = _Agent(task, session, engine, tokenizer, prompts, limits, f"{group}/{task.instance_id}", temperature)
    agent.episode.group, agent.episode.index = group, index
    agent.scoring = scoring
    try:
        return await agent.run()
    finally:
        if on_end:
            on_end(agent.episode)


class _Agent:
    scoring: StepScoring | None = None

    def __init__(
        self,
        task: Task,
        session: Session,
        engine: Engine,
        tokenizer: Tokenizer,
        prompts: Prompts,
        limits: AgentLimits,
        routing_key: str,
        temperature: float,
    ) -> None:
        self.engine, self.tokenizer, self.prompts, self.limits = engine, tokenizer, prompts, limits
        self.workspace = Workspace(session, limits)
        self.routing_key, self.temperature = routing_key, temperature
        self.deadline = asyncio.timeout(limits.episode_timeout)
        self.hide = partial(hide, session, task.hidden_paths)
        self.episode = Episode(task.instance_id, "", 0, timings={"model": 0.0, "environment": 0.0})
        self.episode.messages = [
            {"role": "system", "content": prompts.system()},
            {
                "role": "user",
                "content": prompts.instance(task.visible(), workdir=limits.workdir, step_limit=limits.step_limit),
            },
        ]
        self.transcript = Transcript(tokenizer, list(self.episode.messages), limits.budget)
        self.episode.stretches = self.transcript.stretches
        self.errors_in_row = 0
        self.last_actions: list[str] = []
        self.repeats = 0

    async def run(self) -> Episode:
        episode = self.episode
        with self._timed("total"):
            try:
                await self.hide()
                await self._act()
                await self._fall_back_to_diff()
            except (SandboxError, EngineError) as error:
                infrastructure = isinstance(error, EngineError) or error.infrastructure
                episode.exit_status = "infrastructure_error" if infrastructure else "error"
                episode.infrastructure_error, episode.error = infrastructure, f"{type(error).__name__}: {error}"
            except asyncio.CancelledError:
                episode.exit_status, episode.error = "cancelled", "cancelled from outside"
                raise
            except Exception as error:
                episode.exit_status, episode.error = "error", f"{type(error).__name__}: {error}"
                raise
        return episode

    async def _act(self) -> None:
        """Steps until the episode ends."""
        try:
            async with asyncio.timeout(self.limits.episode_timeout) as self.deadline:
                for remaining in reversed(range(self.limits.step_limit)):
                    await self._step(remaining)
            self.episode.exit_status = "max_steps"
        except _Ended as end:
            self.episode.exit_status = end.status
        except TimeoutError:
            if not self.deadline.expired():
                raise
            self.episode.exit_status = "episode_timeout"

    async def _step(self, remaining: int) -> None:
        """One turn of the model; `remaining` more may follow."""
        answer, truncated = await self._ask()
        actions = find_actions(answer, self.limits.protocol)
        if not is_action(actions, self.limits.protocol):
            self._refuse(actions, truncated, remaining)
            return
        self.errors_in_row = 0
        already = len(self.episode.steps)
        results = [await self._execute(action) for action in actions]
        if self.scoring:
            self.scoring.step(self.episode.turns - 1, answer, self.episode.steps[already:])
        self._end_if_stuck(actions)
        shown = [self.prompts.observation(self.workspace.shown(result), self.limits.cut) for result in results]
        self._observe(shown, remaining, role="user" if self.limits.protocol.fence else "tool")

    async def _ask(self) -> tuple[str, bool]:
        """The model's next answer, and whether it was cut for its length."""
        room = self.transcript.room()
        if room < 1:
            self._overflow()
        with self._timed("model"):
            generation = await self.engine.generate(
                self.transcript.input_ids(),
                max_new_tokens=min(self.limits.max_tokens_per_turn, room),
                temperature=self.temperature,
                stop_token_ids=self.tokenizer.stop_token_ids,
                routing_key=self.routing_key,
            )
        answer = self.transcript.answer(generation)
        self.episode.messages.append({"role": "assistant", "content": answer})
        self.episode.turns += 1
        self.episode.omitted_turns = self.transcript.omitted
        return answer, generation.finish_reason == "length"

    def _overflow(self) -> None:
        if self.episode.turns:
            raise _Ended("context_overflow")
        self.episode.error = (
            f"the prompt of {self.episode.instance_id} has {self.transcript.prompt_length} tokens, the window "
            f"{self.limits.context_tokens}: raise agent.contextTokens or leave the task out with tasks.filter"
        )
        raise _Ended("prompt_too_long")

    async def _execute(self, action: str) -> CommandResult:
        """Run one command; the episode ends here when its output submits."""
        started = time.time()
        left = (self.deadline.when() or 0.0) - asyncio.get_running_loop().time()
        with self._timed("environment"):
            result = await self.workspace.execute(action, seconds_left=left)
        if result.ran is not None:
            self._spent("exec", result.duration - result.ran)
        self.episode.steps.append(step_record(self.episode.turns - 1, action, result, started))
        protocol = self.limits.protocol
        if submission(result.output, protocol) is not None and (protocol.failed_submits or result.exit_code == 0):
            with self._timed("diff"):
                patch = await self.workspace.submitted(result)
            self._take(patch, "submission")
            raise _Ended("submitted")
        return result

    def _refuse(self, actions: list[str], truncated: bool, remaining: int) -> None:
        """Tell the model that its answer holds nothing that can be run."""
        self.episode.format_errors += 1
        self.errors_in_row += 1
        if self.errors_in_row == self.limits.protocol.format_error_limit:
            raise _Ended("repeated_format_errors")
        self._observe([self.prompts.format_error(actions, truncated=truncated)], remaining, role="user")

    def _end_if_stuck(self, actions: list[str]) -> None:
        self.repeats = self.repeats + 1 if actions == self.last_actions else 1
        self.last_actions = actions
        if self.repeats == self.limits.protocol.repeat_limit:
            raise _Ended("repeated_command")

    def _observe(self, contents: list[str], remaining: int, *, role: str) -> None:
        reminder = self.prompts.reminder(remaining)
        if reminder:
            contents = [*contents[:-1], f"{contents[-1]}\n\n{reminder}"]
        self.episode.messages += [{"role": role, "content": content} for content in contents]
        self.transcript.observe(*contents, role=role)

    async def _fall_back_to_diff(self) -> None:
        if self.episode.patch is None and self.episode.turns:
            with self._timed("diff"):
                patch = await self.workspace.diff()
            self._take(patch, "git_diff_fallback")

    def _take(self, patch: str, source: str) -> None:
        if is_valid_patch(patch):
            self.episode.patch, self.episode.patch_source = patch, source

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._spent(phase, time.monotonic() - started)

    def _spent(self, phase: str, seconds: float) -> None:
        self.episode.timings[phase] = self.episode.timings.get(phase, 0.0) + seconds
