"""The talk of one episode with its model, in tokens: what the built-in loop asks and is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .chat import ContextFull
from .engine import Engine
from .episode import AgentLimits
from .token_segment import TokenSegment
from .tokens import Tokenizer
from .transcript import Transcript

Opening = list[dict[str, Any]]  # the messages before the first answer: system, user


@dataclass(frozen=True)
class Said:
    """One answer of the model."""

    text: str
    truncated: bool  # cut for its length
    usage: Mapping[str, float] = field(default_factory=dict)  # as that of a Generation


class Conversation(Protocol):
    """A conversation that fits into the model's window, turns left out where it would not."""

    segments: list[TokenSegment]
    """Its tokens, growing with it; empty where only text is known."""

    @property
    def omitted(self) -> int:
        """Turns left out of what the model reads next."""
        ...

    async def answer(self) -> Said:
        """The model's next answer. Raises ContextFull, EngineError."""
        ...

    def observe(self, *contents: str, role: str = "user") -> None:
        """Add messages of `role` after the last answer."""
        ...


class Begin(Protocol):
    """Begins a conversation."""

    def __call__(self, opening: Opening, *, routing_key: str, temperature: float) -> Conversation:
        """Raises TokenizerError when the chat template does not take the messages."""
        ...


def no_room(length: str, limits: AgentLimits) -> ContextFull:
    """What a prompt of `length` tokens is, to which no answer fits."""
    answer = "" if limits.budget.omits else f", an answer {limits.max_tokens_per_turn}"
    return ContextFull(f"has {length} tokens{answer}, the window {limits.context_tokens}: raise agent.contextTokens")


class SampledConversation:
    """With an engine, token-in/token-out."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        limits: AgentLimits,
        opening: Opening,
        routing_key: str,
        temperature: float,
    ) -> None:
        self._engine, self._tokenizer, self._limits = engine, tokenizer, limits
        self._routing_key, self._temperature = routing_key, temperature
        self._transcript = Transcript(tokenizer, opening, limits.budget)
        self.segments = self._transcript.segments

    @property
    def omitted(self) -> int:
        return self._transcript.omitted

    async def answer(self) -> Said:
        room = self._transcript.room()
        if room < 1:
            raise no_room(str(len(self._transcript.input_ids())), self._limits)
        generation = await self._engine.generate(
            self._transcript.input_ids(),
            max_new_tokens=min(self._limits.max_tokens_per_turn, room),
            temperature=self._temperature,
            stop_token_ids=self._tokenizer.stop_token_ids,
            routing_key=self._routing_key,
        )
        text = self._transcript.answer(generation)
        return Said(text, generation.finish_reason == "length", generation.usage)

    def observe(self, *contents: str, role: str = "user") -> None:
        self._transcript.observe(*contents, role=role)
