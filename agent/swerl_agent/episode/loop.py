"""The built-in agent: ask the model, run its command, show it the output, until the episode ends.

Guarantee: an infrastructure failure ends the episode and is never shown to the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from swerl_agent.sandbox import CommandResult
from swerl_agent.tasks import Task

from .chat import ChatCompletions, ContextFull
from .chat_conversation import ChatConversation
from .conversation import Begin, Conversation, SampledConversation
from .engine import Engine, added
from .episode import AgentLimits, Episode
from .parsing import find_actions, is_action, submission
from .prompts import Prompts
from .run import Ended, EpisodeRun, StepScoring
from .tokens import Tokenizer
from .workspace import Session

BUILTIN = "builtin"  # its name, as AgentKind has it


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
    begin = partial(SampledConversation, engine, tokenizer, limits)
    agent = _Loop(task, session, begin, prompts, limits, group=group, index=index, temperature=temperature)
    agent.scoring = scoring
    return await _run(agent, on_end)


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


@dataclass(frozen=True)
class ChatAgent:
    """The same loop with a server that is spoken to in messages; such episodes have no tokens. Text protocols only."""

    server: ChatCompletions
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
        begin = partial(ChatConversation, self.server, self.limits)
        agent = _Loop(
            task, session, begin, self.prompts, self.limits, group=group, index=index, temperature=temperature
        )
        agent.scoring = scoring
        return await _run(agent, on_end)


class _Loop(EpisodeRun):
    scoring: StepScoring | None = None

    def __init__(
        self,
        task: Task,
        session: Session,
        begin: Begin,
        prompts: Prompts,
        limits: AgentLimits,
        *,
        group: str,
        index: int,
        temperature: float,
    ) -> None:
        super().__init__(task, session, limits, group=group, index=index, agent_name=BUILTIN)
        self.prompts, self.task = prompts, task.visible()
        self.begin = partial(begin, routing_key=f"{group}/{task.instance_id}", temperature=temperature)
        self.talk: Conversation
        self.errors_in_row = 0
        self.last_actions: list[str] = []
        self.repeats = 0

    async def act(self) -> None:
        self._open()
        for remaining in reversed(range(self.limits.step_limit)):
            await self._step(remaining)
        raise Ended("max_steps")

    def _open(self) -> None:
        """Begin the conversation."""
        limits = self.limits
        instance = self.prompts.instance(self.task, workdir=limits.workdir, step_limit=limits.step_limit)
        self.episode.messages = [
            {"role": "system", "content": self.prompts.system()},
            {"role": "user", "content": instance},
        ]
        self.talk = self.begin(list(self.episode.messages))
        self.episode.segments = self.talk.segments

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
        try:
            with self.timed("model"):
                said = await self.talk.answer()
        except ContextFull as full:
            if self.episode.turns:
                raise Ended("context_overflow") from full
            self.episode.error = (
                f"the prompt of {self.episode.instance_id} {full} or leave the task out with tasks.filter"
            )
            raise Ended("prompt_too_long") from full
        self.episode.usage = added(self.episode.usage, said.usage)
        self.episode.messages.append({"role": "assistant", "content": said.text})
        self.episode.turns += 1
        self.episode.omitted_turns = self.talk.omitted
        return said.text, said.truncated

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
        self.talk.observe(*contents, role=role)


async def _run(agent: _Loop, on_end: Callable[[Episode], None] | None) -> Episode:
    try:
        return await agent.run()
    finally:
        if on_end:
            on_end(agent.episode)
