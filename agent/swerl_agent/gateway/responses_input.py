"""The input of OpenAI's Responses API as the messages of a chat completion. Pure.

Guarantee: the items of one answer (thought, text, calls) become one message again, even if results of its calls stand
between them. The conversation therefore continues the tokens of that answer.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from .blocks import blocks, call, string, text_of, unsupported
from .errors import invalid

FREEFORM = "input"  # the argument of a tool that takes text instead of JSON
ORDER = ("reasoning", "message", "call")  # of one answer's items


def messages_of(items: Any) -> list[dict[str, Any]]:
    """Messages that items, or one text, stand for; raises Refusal."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    reader = _InputReader()
    for number, item in enumerate(blocks(items, "input")):
        reader.read(item, f"input[{number}]")
    return reader.messages


def call_id(answer: str, number: int) -> str:
    """The id of a call, which names its answer."""
    return f"call_{answer}_{number}"


def encoded_reasoning(thought: str) -> str:
    """A thought as `encrypted_content`, for clients that keep only that."""
    return base64.b64encode(thought.encode("utf-8", "replace")).decode()


class _InputReader:
    """Reads items one by one."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._last = ""  # kind of the last item, when that is part of an answer
        self._of_call: dict[str, dict[str, Any]] = {}  # message by what its calls' ids begin with

    def read(self, item: Mapping[str, Any], where: str) -> None:
        """Append the messages of an item; raises Refusal."""
        kind = item.get("type") or "message"
        if kind == "message":
            self._message(item, where)
        elif kind == "reasoning":
            self._answer("reasoning")["reasoning_content"] = _thought(item, where)
        elif kind == "function_call":
            self._call(item, string(item, "arguments", where), where)
        elif kind == "custom_tool_call":
            self._call(item, json.dumps({FREEFORM: string(item, "input", where)}), where)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._add_message("tool", text_of(item.get("output"), f"{where}.output"), tool_call_id=item.get("call_id"))
        else:
            raise unsupported(f"{where}.type", kind)

    def _message(self, item: Mapping[str, Any], where: str) -> None:
        content = text_of(item.get("content"), f"{where}.content")
        role = string(item, "role", where)
        if role == "assistant":
            self._answer("message")["content"] = content
        else:
            self._add_message(role, content)

    def _add_message(self, role: str, content: str, **more: Any) -> None:
        self.messages.append({"role": role, "content": content, **more})
        self._last = ""

    def _answer(self, kind: str) -> dict[str, Any]:
        """The answer that an item of this kind belongs to."""
        follows = self._last and (ORDER.index(self._last) < ORDER.index(kind) or kind == self._last == "call")
        if not follows:
            self.messages.append({"role": "assistant", "content": ""})
        self._last = kind
        return self.messages[-1]

    def _call(self, item: Mapping[str, Any], arguments: str, where: str) -> None:
        name, identifier = string(item, "name", where), string(item, "call_id", where)
        answer = identifier.rpartition("_")[0]
        message = self._of_call.get(answer) or self._answer("call")
        if answer.startswith("call_"):
            self._of_call[answer] = message
        message.setdefault("tool_calls", []).append(call(name, arguments, identifier))


def _thought(item: Mapping[str, Any], where: str) -> str:
    text = text_of(item.get("content"), f"{where}.content")
    if text or not item.get("encrypted_content"):
        return text
    try:
        return base64.b64decode(string(item, "encrypted_content", where), validate=True).decode()
    except ValueError as error:
        place = f"{where}.encrypted_content"
        raise invalid(f"{place}: was not issued by this gateway; remove it", place) from error
