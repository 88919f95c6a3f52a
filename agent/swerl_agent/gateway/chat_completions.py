"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import wire
from .errors import Refusal
from .exchange import Api, Exchange, event
from .recording import Body, Recording


class ChatExchange(Exchange):
    """A request as it is."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.chat = body

    def answer(self, completion: Body) -> Body:
        return completion

    def events(self, answer: Body) -> Iterator[bytes]:
        yield from map(event, wire.chunks(self.request, answer))
        yield b"data: [DONE]\n\n"


class ChatApi(Api):
    """OpenAI's chat completions, and the form of OpenAI's errors."""

    def exchange(self, body: Mapping[str, Any], recording: Recording) -> Exchange:
        return ChatExchange(body)

    def error(self, refusal: Refusal) -> Body:
        return refusal.body

    def error_event(self, refusal: Refusal) -> bytes:
        return event(refusal.body)
