"""The built-in agent: ask the model, run its command, show it the output, until the episode ends.

Guarantee: an infrastructure failure ends the episode and is never shown to the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swerl_agent.sandbox import CommandResult
from swerl_agent.tasks import Task

from .engine import Engine, added
from .episode import AgentLimits, Episode
from .parsing import find_actions, is_action, submission
from .prompts import Prompts
from .run import Ended, EpisodeRun, StepScoring
from .tokens import Tokenizer
from .transcript import Transcript
from .workspace import Session


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
    """One episode of the model at `task` in the sandbox of `session`.

    `group` names the prompt's group and is the routing key, so that its members share an engine's prefix cache.
    `scoring` is told of every step with a command. `on_end` gets the episode whatever ended it, cancellation and
    programming errors included (these are raised after).
    """
    agent = _Loop(task, session, engine, tokenizer, prompts, limits, group=group, index=index, temperature=temperature)
    agent.scoring = scoring
    try:
        return await agent.run()
    finally:
        if on_end:
            on_end(agent.episode)


@dataclass(frozen=True)
class BuiltinAgent:
    """Runs episodes with the built-in loop."""

    engine: Engine
    tokenizer: Tokenizer
    prompts: Prompts
    limits: AgentLimits

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
        """See Agent."""
        return await run_episode(
            task, session, self.engine, self.tokenizer, self.prompts, self.limits,
            group=group, index=index, temperature=temperature, scoring=scoring, on_end=on_end,
        )  # fmt: skip


class _Loop(EpisodeRun):
    scoring: StepScoring | None = None

    def __init__(
        self,
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
    ) -> None:
        super().__init__(task, session, limits, group=group, index=index)
        self.engine, self.tokenizer, self.prompts, self.temperature = engine, tokenizer, prompts, temperature
        self.routing_key = f"{group}/{task.instance_id}"
        instance = prompts.instance(task.visible(), workdir=limits.workdir, step_limit=limits.step_limit)
        self.episode.messages = [
            {"role": "system", "content": prompts.system()},
            {"role": "user", "content": instance},
        ]
        self.transcript = Transcript(tokenizer, list(self.episode.messages), limits.budget)
        self.episode.stretches = self.transcript.stretches
        self.errors_in_row = 0
        self.last_actions: list[str] = []
        self.repeats = 0

    async def act(self) -> None:
        for remaining in reversed(range(self.limits.step_limit)):
            await self._step(remaining)
        raise Ended("max_steps")

    async def _step(self, remaining: int) -> None:
        """One turn of the model; `remaining` more may follow."""
        answer, truncated = await self._ask()
        actions = find_actions(answer, self.limits.protocol)
        if not is_action(actions, self.limits.protocol):
            self._refuse(actions, truncated, remaining)
            return
        self.errors_in_row = 0
        already = len(self.episode.steps)
        try:
            results = [await self._execute(action) for action in actions]
        except Ended:
            self._score(answer, already, submits=True)
            raise
        self._score(answer, already)
        self._end_if_stuck(actions)
        shown = [self.prompts.observation(self.workspace.shown(result), self.limits.cut) for result in results]
        self._observe(shown, remaining, role="user" if self.limits.protocol.fence else "tool")

    def _score(self, answer: str, already: int, *, submits: bool = False) -> None:
        """Have the last answer judged by what came of its commands, which follow the `already` first ones."""
        if self.scoring:
            self.scoring.step(self.episode.turns - 1, answer, self.episode.steps[already:], submits=submits)

    async def _ask(self) -> tuple[str, bool]:
        """The model's next answer, and whether it was cut for its length."""
        room = self.transcript.room()
        if room < 1:
            self._overflow()
        with self.timed("model"):
            generation = await self.engine.generate(
                self.transcript.input_ids(),
                max_new_tokens=min(self.limits.max_tokens_per_turn, room),
                temperature=self.temperature,
                stop_token_ids=self.tokenizer.stop_token_ids,
                routing_key=self.routing_key,
            )
        self.episode.usage = added(self.episode.usage, generation.usage)
        answer = self.transcript.answer(generation)
        self.episode.messages.append({"role": "assistant", "content": answer})
        self.episode.turns += 1
        self.episode.omitted_turns = self.transcript.omitted
        return answer, generation.finish_reason == "length"

    def _overflow(self) -> None:
        if self.episode.turns:
            raise Ended("context_overflow")
        self.episode.error = (
            f"the prompt of {self.episode.instance_id} has {self.transcript.prompt_length} tokens, the window "
            f"{self.limits.context_tokens}: raise agent.contextTokens or leave the task out with tasks.filter"
        )
        raise Ended("prompt_too_long")

    async def _execute(self, action: str) -> CommandResult:
        """Run one command; the episode ends here when its output submits."""
        result = await self.execute(action, step=self.episode.turns - 1)
        protocol = self.limits.protocol
        if submission(result.output, protocol) is not None and (protocol.failed_submits or result.exit_code == 0):
            await self.take_submission(result)
            raise Ended("submitted")
        return result

    def _refuse(self, actions: list[str], truncated: bool, remaining: int) -> None:
        """Tell the model that its answer holds nothing that can be run."""
        self.episode.format_errors += 1
        self.errors_in_row += 1
        if self.errors_in_row == self.limits.protocol.format_error_limit:
            raise Ended("repeated_format_errors")
        self._observe([self.prompts.format_error(actions, truncated=truncated)], remaining, role="user")

    def _end_if_stuck(self, actions: list[str]) -> None:
        self.repeats = self.repeats + 1 if actions == self.last_actions else 1
        self.last_actions = actions
        if self.repeats == self.limits.protocol.repeat_limit:
            raise Ended("repeated_command")

    def _observe(self, contents: list[str], remaining: int, *, role: str) -> None:
        reminder = self.prompts.reminder(remaining)
        if reminder:
            contents = [*contents[:-1], f"{contents[-1]}\n\n{reminder}"]
        self.episode.messages += [{"role": role, "content": content} for content in contents]
        self.transcript.observe(*contents, role=role)
