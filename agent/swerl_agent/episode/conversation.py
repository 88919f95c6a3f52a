"""The conversation of one episode with its model: messages in, replies out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from swerl_api import AgentSpec

from .chat import ContextFull
from .context import omits_turns
from .engine import Engine
from .model_kwargs import sampling_fields
from .request import EpisodeRequest
from .token_segment import TokenSegment
from .tokens import Tokenizer
from .transcript import Transcript

Opening = list[dict[str, Any]]  # the messages before the first answer: system, user


@dataclass(frozen=True)
class ModelReply:
    """One answer of the model."""

    text: str
    truncated: bool  # cut for its length
    usage: Mapping[str, float] = field(default_factory=dict)  # see Generation.usage


class Conversation(Protocol):
    """A conversation that stays within the model's window by omitting turns."""

    segments: list[TokenSegment]
    """Its tokens, growing with it; empty where the server reveals text alone."""

    @property
    def omitted(self) -> int:
        """Turns omitted from what the model reads next."""
        ...

    async def answer(self) -> ModelReply:
        """The model's next answer. Raises ContextFull, EngineError."""
        ...

    def observe(self, *contents: str, role: str = "user") -> None:
        """Append messages of `role` after the last answer."""
        ...


class StartConversation(Protocol):
    """Starts the conversation of a request."""

    def __call__(self, opening: Opening, request: EpisodeRequest) -> Conversation:
        """Raises TokenizerError when the chat template refuses the messages."""
        ...


def context_full(length: str, spec: AgentSpec) -> ContextFull:
    """The error of a prompt of `length` tokens that leaves no room for an answer."""
    answer = "" if omits_turns(spec) else f", an answer {spec.max_tokens_per_turn}"
    return ContextFull(f"has {length} tokens{answer}, the window {spec.context_tokens}: raise agent.contextTokens")


class SampledConversation:
    """A conversation with an engine, token-in/token-out."""

    def __init__(
        self, engine: Engine, tokenizer: Tokenizer, spec: AgentSpec, opening: Opening, request: EpisodeRequest
    ) -> None:
        self._engine, self._tokenizer, self._spec, self._request = engine, tokenizer, spec, request
        truncation = sampling_fields(spec).truncation
        self._sampling: dict[str, Any] = {"truncation": truncation} if truncation else {}
        self._transcript = Transcript(tokenizer, opening, spec)
        self.segments = self._transcript.segments

    @property
    def omitted(self) -> int:
        return self._transcript.omitted

    async def answer(self) -> ModelReply:
        room = self._transcript.room()
        if room < 1:
            raise context_full(str(len(self._transcript.input_ids())), self._spec)
        generation = await self._engine.generate(
            self._transcript.input_ids(),
            max_new_tokens=min(self._spec.max_tokens_per_turn, room),
            temperature=self._request.temperature,
            stop_token_ids=self._tokenizer.stop_token_ids,
            routing_key=self._request.routing_key,
            **self._sampling,
        )
        text = self._transcript.answer(generation)
        return ModelReply(text, generation.finish_reason == "length", generation.usage)

    def observe(self, *contents: str, role: str = "user") -> None:
        self._transcript.observe(*contents, role=role)
