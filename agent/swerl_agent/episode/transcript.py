"""The exact tokens of an episode.

Guarantees: sampled ids are recorded as the engine returned them, with mask 1 and their log-probs; all other ids have
mask 0 and log-prob 0. Only tokens that a generation has read are recorded. A step encodes its own observation alone,
however long the conversation is. Omitting turns does not encode the remaining ones again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swerl_api import AgentSpec

from .context import answer_room, choose_window, max_input_tokens, omission_note, omits_turns
from .engine import EngineError, Generation
from .token_segment import TokenSegment
from .tokens import Messages, Tokenizer


@dataclass(frozen=True)
class _TokenTurn:
    """An answer with the token that closes it, and the observation after it."""

    answer: list[int]
    observation: tuple[str, ...]  # contents of its messages
    role: str
    ids: list[int]  # of all


class Transcript:
    """Records the tokens of one conversation that begins with `messages` (system, user)."""

    def __init__(self, tokenizer: Tokenizer, messages: Messages, spec: AgentSpec) -> None:
        self._tokenizer = tokenizer
        self._messages = messages
        self._spec = spec
        self._prompt = tokenizer.prompt(messages)
        self._turns: list[_TokenTurn] = []
        self._sampled: list[int] = []  # the last answer
        self._next = self._prompt  # the next input ids
        self._continues = False  # whether they extend the newest segment
        self._step = 0
        self.segments: list[TokenSegment] = []
        self.omitted = 0  # turns omitted from the newest segment

    @property
    def prompt_length(self) -> int:
        """Tokens before the first answer."""
        return len(self._prompt)

    def input_ids(self) -> list[int]:
        """The ids that the engine reads next."""
        return self._next

    def room(self) -> int:
        """Tokens of the context window left for the next answer; below 1 when no answer may follow."""
        return answer_room(self._spec, len(self._next))

    def answer(self, generation: Generation) -> str:
        """Record a generation and what it read; the answer's text without the closing token. Raises EngineError."""
        text = answer_text(self._tokenizer, generation)
        self._current().sample(self._step, generation)
        self._step += 1
        self._sampled = list(generation.output_ids)
        return text

    def observe(self, *contents: str, role: str = "user") -> None:
        """Append messages of `role`; they are recorded once a generation has read them."""
        answer = self._closed(role)
        turn = _TokenTurn(answer, contents, role, answer + self._tokenizer.delta(*contents, role=role))
        self._turns.append(turn)
        whole = self.segments[-1].tokens + turn.ids[len(self._sampled) :]
        if len(whole) <= max_input_tokens(self._spec) or len(self._turns) == 1 or not omits_turns(self._spec):
            self._next, self._continues = whole, True
        else:
            self._next, self._continues = self._reduced(), False

    def _current(self) -> TokenSegment:
        """The segment of the tokens that the engine has just read."""
        if self._continues:
            segment = self.segments[-1]
            segment.read(self._next[len(segment.tokens) :])
        else:
            segment = TokenSegment(prompt_length=len(self._next))
            segment.read(self._next)
            self.segments.append(segment)
        return segment

    def _reduced(self) -> list[int]:
        """The conversation with turns omitted, within the window unless the latest turn alone exceeds it."""
        costs = [len(turn.ids) for turn in self._turns]
        note = self._tokenizer.encode(_note(len(self._turns)))
        target = max_input_tokens(self._spec) - len(self._prompt) - len(note)
        while True:
            window = choose_window(costs, target, self._spec.head_ratio)
            ids = self._shown(window.head, window.tail)
            excess = len(ids) - max_input_tokens(self._spec)
            if excess <= 0 or window.omitted == len(costs) - 1:
                self.omitted = window.omitted
                return ids
            target -= excess  # tokens around the note may merge differently than counted

    def _shown(self, head: int, tail: int) -> list[int]:
        """Tokens of the conversation with the turns [head, tail) replaced by a note in the message before them."""
        note = _note(tail - head)
        turns = [turn.ids for turn in (*self._turns[:head], *self._turns[tail:])]
        if not head:
            *before, user = self._messages
            return _joined([self._tokenizer.prompt([*before, {**user, "content": user["content"] + note}]), *turns])
        last = self._turns[head - 1]
        *others, observation = last.observation
        turns[head - 1] = last.answer + self._tokenizer.delta(*others, observation + note, role=last.role)
        return _joined([self._prompt, *turns])

    def _closed(self, role: str) -> list[int]:
        """The last answer with the token that closes it before a message of `role`."""
        end = self._tokenizer.turn_end_id if role == "user" else self._tokenizer.tool_end_id
        return self._sampled if self._sampled[-1:] == [end] else [*self._sampled, end]


def answer_text(tokenizer: Tokenizer, generation: Generation) -> str:
    """The text of an answer, without the token that ends it; raises EngineError for ids of another vocabulary."""
    ids = generation.output_ids
    if ids and not 0 <= min(ids) <= max(ids) < tokenizer.vocab_size:
        raise EngineError(
            f"the engine sampled token {max(ids)}, the tokenizer's vocabulary has {tokenizer.vocab_size}: "
            "use the tokenizer of the model that the engine serves"
        )
    return tokenizer.decode(ids[:-1] if ids and ids[-1] in tokenizer.stop_token_ids else ids)


def _note(count: int) -> str:
    return "\n\n" + omission_note(count)


def _joined(parts: Sequence[list[int]]) -> list[int]:
    return [index for part in parts for index in part]
