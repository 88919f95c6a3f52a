"""The conversation of one episode with an OpenAI-compatible server.

Guarantees: as with tokens, the first turns, the last turns and the latest observation always stay. Turns are omitted
before the longest answer stops fitting, as estimated from the server's token counts; at the latest, when the server
reports a full window. No turn is omitted while the server reports no counts, or where contextPolicy is `stop`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from swerl_api import AgentSpec

from .chat import ChatCompletions, ContextFull, Message
from .context import SLACK, answer_room, choose_window, max_input_tokens, omission_note, omits_turns
from .conversation import ModelReply, Opening, context_full
from .model_kwargs import request_fields
from .request import EpisodeRequest
from .token_segment import TokenSegment

USUAL_CHARACTERS = 4  # of a token, until the server has counted
EMPTY = "(no text)"  # replaces an answer without content, which servers refuse as a message


class CountedWindow:
    """Estimates the room in the context window from the token counts that the server reported earlier."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._per_token: float | None = None  # characters; None: no count yet

    @property
    def capacity(self) -> float:
        """Characters of messages that leave room for the longest answer."""
        return math.inf if self._per_token is None else max_input_tokens(self._spec) * self._per_token

    def counted(self, messages: Sequence[Message], tokens: float | None) -> None:
        """Record that the server counted `tokens` for `messages`; None: it reported no count."""
        if tokens:
            self._per_token = characters(messages) / tokens

    def estimate(self, messages: Sequence[Message]) -> int:
        """Tokens of `messages`."""
        return math.ceil(characters(messages) / (self._per_token or USUAL_CHARACTERS))

    def room(self, messages: Sequence[Message]) -> int:
        """Tokens that the answer to `messages` may have. Raises ContextFull."""
        if self._per_token is None:
            return self._spec.max_tokens_per_turn
        length = self.estimate(messages)
        room = answer_room(self._spec, length)
        if room < 1:
            raise context_full(f"about {length}", self._spec)
        return min(self._spec.max_tokens_per_turn, room)


class ChatConversation:
    """A conversation with an OpenAI-compatible server."""

    def __init__(self, server: ChatCompletions, spec: AgentSpec, opening: Opening, request: EpisodeRequest) -> None:
        self._server, self._spec, self._request = server, spec, request
        self._fields = request_fields(spec)
        self._window = CountedWindow(spec)
        self._refused = math.inf  # characters at which the server reported a full window
        self._opening = opening
        self._turns: list[list[Message]] = []  # an answer and the messages after it
        self._shown: list[Message] = [*opening]
        self._last_answer = EMPTY
        self.segments: list[TokenSegment] = []
        self.omitted = 0

    async def answer(self) -> ModelReply:
        while True:
            try:
                completion = await self._server.complete(
                    self._shown,
                    max_tokens=self._window.room(self._shown),
                    temperature=self._request.temperature,
                    routing_key=self._request.routing_key,
                    **self._fields,
                )
                break
            except ContextFull:
                if self.omitted >= len(self._turns) - 1 or not omits_turns(self._spec):
                    raise
                self._refused = (1 - SLACK) * characters(self._shown)
                self._cut()
        self._window.counted(self._shown, completion.usage.get("prompt_tokens"))
        self._last_answer = completion.content or EMPTY
        return ModelReply(completion.text, completion.truncated, completion.usage)

    def observe(self, *contents: str, role: str = "user") -> None:
        turn: list[Message] = [{"role": "assistant", "content": self._last_answer}]
        turn += [{"role": role, "content": text} for text in contents]
        self._turns.append(turn)
        self._shown += turn
        if characters(self._shown) > self._capacity and len(self._turns) > 1 and omits_turns(self._spec):
            self._cut()

    @property
    def _capacity(self) -> float:
        return min(self._refused, self._window.capacity)

    def _cut(self) -> None:
        """Omit turns until the conversation fits."""
        costs = [characters(turn) for turn in self._turns]
        around = characters(self._opening) + len(omission_note(len(costs)))
        window = choose_window(costs, int(self._capacity) - around, self._spec.head_ratio)
        self.omitted = window.omitted
        before = [*self._opening, *(message for turn in self._turns[: window.head] for message in turn)]
        note = f"\n\n{omission_note(window.omitted)}" if window.omitted else ""
        last = {**before[-1], "content": before[-1]["content"] + note}
        self._shown = [*before[:-1], last, *(message for turn in self._turns[window.tail :] for message in turn)]


def characters(messages: Sequence[Message]) -> int:
    """Length of the messages as they are sent."""
    return sum(len(json.dumps(message, ensure_ascii=False)) for message in messages)
