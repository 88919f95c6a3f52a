"""The talk of one episode with a server that is spoken to in messages.

Guarantees: as with tokens, the first turns and the last ones stay and the latest observation always; turns are left out
before the longest answer would not fit any more, as far as the server's own counts tell, and at the latest when the
server says that its window is full; nothing is left out of a window that nobody has counted, or where that is the end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from .chat import ChatCompletions, ContextFull, Message
from .context import SLACK, choose_window, omission_note
from .conversation import Opening, Said, no_room
from .episode import AgentLimits
from .token_segment import TokenSegment

EMPTY = "(no text)"  # in place of an answer that was all thought, or nothing: servers refuse messages without content


class CountedWindow:
    """What messages leave of the context window, estimated from the tokens that the server counted of earlier ones."""

    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self._per_token: float | None = None  # characters; None: nothing was counted yet

    @property
    def capacity(self) -> float:
        """Characters of messages that leave room for the longest answer."""
        return math.inf if self._per_token is None else self._limits.budget.max_input * self._per_token

    def counted(self, messages: Sequence[Message], tokens: float | None) -> None:
        """The server has read `messages` as so many tokens; None: it does not say."""
        if tokens:
            self._per_token = characters(messages) / tokens

    def room(self, messages: Sequence[Message]) -> int:
        """Tokens that the answer to `messages` may have. Raises ContextFull."""
        if self._per_token is None:
            return self._limits.max_tokens_per_turn
        length = math.ceil(characters(messages) / self._per_token)
        room = self._limits.budget.room(length)
        if room < 1:
            raise no_room(f"about {length}", self._limits)
        return min(self._limits.max_tokens_per_turn, room)


class ChatConversation:
    """With an OpenAI-compatible server."""

    def __init__(
        self, server: ChatCompletions, limits: AgentLimits, opening: Opening, routing_key: str, temperature: float
    ) -> None:
        self._server, self._budget = server, limits.budget
        self._routing_key, self._temperature = routing_key, temperature
        self._window = CountedWindow(limits)
        self._refused = math.inf  # characters above which the server's own window was full
        self._opening = opening
        self._turns: list[list[Message]] = []  # an answer and the messages after it
        self._shown: list[Message] = [*opening]
        self._said = EMPTY
        self.segments: list[TokenSegment] = []
        self.omitted = 0

    async def answer(self) -> Said:
        while True:
            try:
                completion = await self._server.complete(
                    self._shown,
                    max_tokens=self._window.room(self._shown),
                    temperature=self._temperature,
                    routing_key=self._routing_key,
                )
                break
            except ContextFull:
                if self.omitted >= len(self._turns) - 1 or not self._budget.omits:
                    raise
                self._refused = (1 - SLACK) * characters(self._shown)
                self._cut()
        self._window.counted(self._shown, completion.usage.get("prompt_tokens"))
        self._said = completion.content or EMPTY
        return Said(completion.text, completion.truncated, completion.usage)

    def observe(self, *contents: str, role: str = "user") -> None:
        turn: list[Message] = [{"role": "assistant", "content": self._said}]
        turn += [{"role": role, "content": text} for text in contents]
        self._turns.append(turn)
        self._shown += turn
        if characters(self._shown) > self._capacity and len(self._turns) > 1 and self._budget.omits:
            self._cut()

    @property
    def _capacity(self) -> float:
        return min(self._refused, self._window.capacity)

    def _cut(self) -> None:
        """Show the conversation with turns left out, as much as fits."""
        costs = [characters(turn) for turn in self._turns]
        around = characters(self._opening) + len(omission_note(len(costs)))
        window = choose_window(costs, int(self._capacity) - around, self._budget)
        self.omitted = window.omitted
        before = [*self._opening, *(message for turn in self._turns[: window.head] for message in turn)]
        note = f"\n\n{omission_note(window.omitted)}" if window.omitted else ""
        last = {**before[-1], "content": before[-1]["content"] + note}
        self._shown = [*before[:-1], last, *(message for turn in self._turns[window.tail :] for message in turn)]


def characters(messages: Sequence[Message]) -> int:
    """Length of messages, with all that is sent of them."""
    return sum(len(json.dumps(message, ensure_ascii=False)) for message in messages)
