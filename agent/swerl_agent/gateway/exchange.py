"""One request of a client in its API, and the answer in the same API.

Guarantee: for every API, the gateway answers one internal request, a chat completion's; tokens, limits and training
sequences do not depend on the API.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from swerl_agent.episode.parsing import split_thought

from .errors import Refusal
from .recording import Body, Recording
from .request import ChatRequest, parse


class Exchange(ABC):
    """A request, `chat` as a chat completion's body. Raises Refusal for an invalid one."""

    chat: Body

    @cached_property
    def request(self) -> ChatRequest:
        """The request as the gateway understands it."""
        return parse(self.chat)

    @abstractmethod
    def answer(self, completion: Body) -> Body:
        """The body of the response, from the chat completion."""

    @abstractmethod
    def events(self, answer: Body) -> Iterator[bytes]:
        """The same as server-sent events."""


class Api(ABC):
    """An API that clients may use."""

    @abstractmethod
    def exchange(self, body: Mapping[str, Any], recording: Recording) -> Exchange:
        """A request of the episode `recording`; raises Refusal."""

    @abstractmethod
    def error(self, refusal: Refusal) -> Body:
        """The body of an error's response."""

    @abstractmethod
    def error_event(self, refusal: Refusal) -> bytes:
        """An error as the last event of a stream."""


@dataclass(frozen=True)
class CompletionParts:
    """The parts of a chat completion."""

    thought: str
    text: str
    calls: list[Mapping[str, Any]]  # id, function.name, function.arguments as JSON
    finish_reason: str
    matched_stop: str | None  # the stop string that ended it, where that is known
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    @classmethod
    def of(cls, completion: Body) -> CompletionParts:
        """The parts; a thought in the text is split off."""
        choice = completion["choices"][0]
        message, usage = choice["message"], completion.get("usage") or {}
        thought = message.get("reasoning_content") or message.get("reasoning") or ""
        content = message.get("content") or ""
        thought, text = (thought, content) if thought else split_thought(content)
        stop = choice.get("matched_stop", choice.get("stop_reason"))
        return cls(
            thought.strip(),
            text.lstrip("\n") if thought else text,
            list(message.get("tool_calls") or ()),
            str(choice.get("finish_reason") or "stop"),
            stop if isinstance(stop, str) else None,
            int(usage.get("prompt_tokens") or 0),
            int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
        )


def event(content: Mapping[str, Any], name: str = "") -> bytes:
    """One server-sent event, with a name where the API has names."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(content)}\n\n".encode()
