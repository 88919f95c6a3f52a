"""The tree of an episode's conversations: maps each request to the tokens that it continues.

Guarantees:

* A conversation that continues an answer of this gateway reads that answer's tokens as sampled.
* Any other conversation reads the tokens that the chat template renders.
* The recorded context of a request is the context that the model read.
* Every sampled token has mask 1 in exactly one segment.

A segment grows while contexts start with all of its tokens. Retries, edited or dropped history and sub-agents start new
segments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from swerl_agent.episode import Generation, HFTokenizer, TokenizerError, TokenSegment

from .request import ChatMessage, ChatRequest


@dataclass(frozen=True)
class _Snapshot:
    """Everything that was read and sampled up to the end of an answer."""

    place: str
    segment: TokenSegment
    end: int  # in the segment's tokens
    messages: tuple[dict[str, str], ...]

    @property
    def tokens(self) -> list[int]:
        return self.segment.tokens[: self.end]


@dataclass(frozen=True)
class Context:
    """The context of a request."""

    ids: list[int]
    place: str  # key of the conversation in the tree
    messages: tuple[dict[str, str], ...]  # the same, as text


class Tree:
    """Tokens and messages of all conversations of one episode."""

    def __init__(self, tokenizer: HFTokenizer) -> None:
        self._plain = tokenizer
        self._shown: dict[str, HFTokenizer] = {}  # by tools and template options
        self._answers: dict[tuple[str, str], _Snapshot] = {}  # by the place before the answer and the answer's identity
        self.segments: list[TokenSegment] = []
        self.answers = 0
        self.messages: list[dict[str, str]] = []  # the conversation of the newest answer

    def tokenizer(self, request: ChatRequest) -> HFTokenizer:
        """Tokenizer that renders the request's tools; raises TokenizerError if the chat template cannot."""
        key = _key(request)
        if key not in self._shown:
            self._shown[key] = self._plain.with_tools(request.shown_tools, request.template_options)
        return self._shown[key]

    def context(self, request: ChatRequest) -> Context:
        """The request's context; raises TokenizerError if the chat template rejects the messages."""
        tokenizer = self.tokenizer(request)
        place, snapshot, after = self._find(_key(request), request.messages)
        if snapshot:
            messages = (*snapshot.messages, *map(_as_text, after))
            try:
                end, ids = tokenizer.continuation([message.template() for message in after])
            except TokenizerError:  # the template renders such messages only within the whole conversation
                pass
            else:
                read = snapshot.tokens
                return Context([*read, *([] if read[-1:] == [end] else [end]), *ids], place, messages)
        ids = tokenizer.rendered([message.template() for message in request.messages])
        return Context(ids, place, tuple(map(_as_text, request.messages)))

    def record(self, context: Context, generation: Generation, answer: ChatMessage, text: str) -> None:
        """Record an answer: its tokens, the client's message and its full text."""
        segment = self._longest_prefix(context.ids)
        if segment is None:
            segment = TokenSegment(prompt_length=len(context.ids))
            self.segments.append(segment)
        segment.read(context.ids[len(segment.tokens) :])
        segment.sample(self.answers, generation)
        self.answers += 1
        self.messages = [*context.messages, {"role": "assistant", "content": text}]
        place = _below(context.place, answer.identity())
        snapshot = _Snapshot(place, segment, len(segment.tokens), tuple(self.messages))
        for thought in (True, False):  # clients may drop the thought
            self._answers[context.place, answer.identity(thought=thought)] = snapshot

    def _find(self, key: str, messages: Sequence[ChatMessage]) -> tuple[str, _Snapshot | None, Sequence[ChatMessage]]:
        """Place of a conversation; its last answer, if it came from this gateway, and the messages after it."""
        place, known, after = _below("", key), None, messages
        for number, message in enumerate(messages):
            answered = self._answers.get((place, message.identity())) if message.role == "assistant" else None
            place = answered.place if answered else _below(place, message.identity())
            if message.role == "assistant":
                known, after = answered, messages[number + 1 :]
        return place, known, after

    def _longest_prefix(self, ids: list[int]) -> TokenSegment | None:
        """The longest segment that is a prefix of `ids`."""
        prefixes = [segment for segment in self.segments if ids[: len(segment.tokens)] == segment.tokens]
        return max(prefixes, key=lambda segment: len(segment.tokens), default=None)


def _key(request: ChatRequest) -> str:
    """A key that is equal for requests with the same tools and template options."""
    return json.dumps([request.shown_tools, request.template_options], sort_keys=True)


def _below(place: str, message: str) -> str:
    """Place after a message with this identity."""
    return hashlib.sha256(f"{place}\n{message}".encode()).hexdigest()


def _as_text(message: ChatMessage) -> dict[str, str]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in message.calls]
    blocks = "".join(f"\n<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    return {"role": message.role, "content": message.text + blocks}
