"""The built-in agent: ask the model, run its command, show it the output, until the episode ends.

Guarantee: an infrastructure failure ends the episode and is never shown to the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from swerl_api import AgentSpec

from swerl_agent.sandbox import CommandResult

from .chat import ChatCompletions, ContextFull
from .chat_conversation import ChatConversation
from .command_runner import CommandRunner
from .conversation import Conversation, SampledConversation, StartConversation
from .engine import Engine, added
from .episode import Episode
from .parsing import find_actions, is_action, submission
from .prompts import Prompts
from .request import EpisodeRequest
from .run import EpisodeEnded, EpisodeRun
from .tokens import Tokenizer

BUILTIN = "builtin"  # its name, as AgentKind has it


@dataclass(frozen=True)
class BuiltinAgent:
    """Runs episodes with the built-in loop, token-in/token-out."""

    engine: Engine
    tokenizer: Tokenizer
    prompts: Prompts
    spec: AgentSpec

    async def run_episode(self, request: EpisodeRequest, session: CommandRunner) -> Episode:
        """See Agent."""
        start = partial(SampledConversation, self.engine, self.tokenizer, self.spec)
        return await _LoopRun(request, session, start, self.prompts, self.spec).run()


@dataclass(frozen=True)
class ChatAgent:
    """The same loop with an OpenAI-compatible server; its episodes have no tokens. Text protocols only."""

    server: ChatCompletions
    prompts: Prompts
    spec: AgentSpec

    async def run_episode(self, request: EpisodeRequest, session: CommandRunner) -> Episode:
        """See Agent."""
        start = partial(ChatConversation, self.server, self.spec)
        return await _LoopRun(request, session, start, self.prompts, self.spec).run()


class _LoopRun(EpisodeRun):
    def __init__(
        self,
        request: EpisodeRequest,
        session: CommandRunner,
        start: StartConversation,
        prompts: Prompts,
        spec: AgentSpec,
    ) -> None:
        super().__init__(request, session, spec, agent_name=BUILTIN)
        self.prompts, self.start = prompts, start
        self.conversation: Conversation
        self.format_errors_in_row = 0
        self.last_actions: list[str] = []
        self.repeats = 0

    async def act(self) -> None:
        self._open()
        for remaining in reversed(range(self.spec.step_limit)):
            await self._step(remaining)
        raise EpisodeEnded("max_steps")

    def _open(self) -> None:
        """Start the conversation."""
        task, workdir = self.request.task.visible(), self.request.workdir
        instance = self.prompts.instance(task, workdir=workdir, step_limit=self.spec.step_limit)
        self.episode.messages = [
            {"role": "system", "content": self.prompts.system()},
            {"role": "user", "content": instance},
        ]
        self.conversation = self.start(list(self.episode.messages), self.request)
        self.episode.segments = self.conversation.segments

    async def _step(self, remaining: int) -> None:
        """One turn of the model; `remaining` more may follow."""
        answer, truncated = await self._ask()
        actions = find_actions(answer, self.protocol)
        if not is_action(actions, self.protocol):
            self._report_format_error(actions, truncated, remaining)
            return
        self.format_errors_in_row = 0
        before = len(self.episode.commands)
        try:
            results = [await self._execute(action) for action in actions]
        except EpisodeEnded:
            self._score(answer, before, submits=True)
            raise
        self._score(answer, before)
        self._end_if_repeated(actions)
        shown = [self.prompts.observation(self.workspace.shown(result), self.spec.observation) for result in results]
        self._observe(shown, remaining, role="user" if self.protocol.fence else "tool")

    def _score(self, answer: str, before: int, *, submits: bool = False) -> None:
        """Have the last answer scored by its commands, all but the first `before` ones."""
        if scoring := self.request.scoring:
            scoring.step(self.episode.turns - 1, answer, self.episode.commands[before:], submits=submits)

    async def _ask(self) -> tuple[str, bool]:
        """The model's next answer, and whether its length limit truncated it."""
        try:
            with self.timed("model"):
                reply = await self.conversation.answer()
        except ContextFull as full:
            if self.episode.turns:
                raise EpisodeEnded("context_overflow") from full
            self.episode.error = (
                f"the prompt of {self.episode.instance_id} {full} or leave the task out with tasks.filter"
            )
            raise EpisodeEnded("prompt_too_long") from full
        self.episode.usage = added(self.episode.usage, reply.usage)
        self.episode.messages.append({"role": "assistant", "content": reply.text})
        self.episode.turns += 1
        self.episode.omitted_turns = self.conversation.omitted
        return reply.text, reply.truncated

    async def _execute(self, action: str) -> CommandResult:
        """Run one command; the episode ends here when its output submits."""
        result = await self.execute(action, step=self.episode.turns - 1)
        protocol = self.protocol
        if submission(result.output, protocol) is not None and (protocol.failed_submits or result.exit_code == 0):
            await self.take_submission(result)
            raise EpisodeEnded("submitted")
        return result

    def _report_format_error(self, actions: list[str], truncated: bool, remaining: int) -> None:
        """Show the model that its answer contains no runnable command."""
        self.episode.format_errors += 1
        self.format_errors_in_row += 1
        if self.format_errors_in_row == self.protocol.format_error_limit:
            raise EpisodeEnded("repeated_format_errors")
        self._observe([self.prompts.format_error(actions, truncated=truncated)], remaining, role="user")

    def _end_if_repeated(self, actions: list[str]) -> None:
        self.repeats = self.repeats + 1 if actions == self.last_actions else 1
        self.last_actions = actions
        if self.repeats == self.protocol.repeat_limit:
            raise EpisodeEnded("repeated_command")

    def _observe(self, contents: list[str], remaining: int, *, role: str) -> None:
        reminder = self.prompts.reminder(remaining)
        if reminder:
            contents = [*contents[:-1], f"{contents[-1]}\n\n{reminder}"]
        self.episode.messages += [{"role": role, "content": content} for content in contents]
        self.conversation.observe(*contents, role=role)
