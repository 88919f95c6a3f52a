"""OpenAI's Responses API, which Codex CLI uses.

Guarantees: a conversation may come whole or as `previous_response_id`; an answer's items can be sent back as they came;
tools that OpenAI's servers run are left out; fields that are unknown here are ignored and logged.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .blocks import assistant, check_fields, function, given, mapping, mappings, unsupported
from .chat_completions import ChatApi
from .errors import Refusal, invalid
from .exchange import CompletionParts, Exchange
from .recording import Body, Recording
from .responses_events import error_event, events
from .responses_input import FREEFORM, encoded_reasoning, messages_of

logger = logging.getLogger(__name__)

NAMES = {  # fields with the same meaning in a chat completion
    "model": "model",
    "max_output_tokens": "max_completion_tokens",
    "stream": "stream",
    "temperature": "temperature",
    "top_p": "top_p",
    "tool_choice": "tool_choice",
}
ECHOED = ("instructions", "max_output_tokens", "metadata", "previous_response_id", "reasoning", "temperature", "top_p")
READ = {*NAMES, *ECHOED, "input", "tools", "text", "store", "include"}
WITHOUT_EFFECT = {
    *("parallel_tool_calls", "truncation", "user", "service_tier", "prompt_cache_key", "prompt_cache_retention"),
    *("safety_identifier", "stream_options", "client_metadata", "max_tool_calls", "background", "conversation"),
}
REFUSED = ("background", "conversation", "prompt")
ENCRYPTED_REASONING = "reasoning.encrypted_content"  # what clients that store nothing ask for
PLAIN_TEXT = {"type": "text"}
FREEFORM_SCHEMA = {"type": "object", "properties": {FREEFORM: {"type": "string"}}, "required": [FREEFORM]}


class ResponsesExchange(Exchange):
    """A response; where it is to be stored, `recording` keeps its conversation."""

    def __init__(self, body: Mapping[str, Any], recording: Recording) -> None:
        check_fields(body, READ | WITHOUT_EFFECT, REFUSED, "response")
        self._body, self._recording = body, recording
        self._freeform = {tool.get("name") for tool in mappings(body, "tools") if tool.get("type") == "custom"}
        self._messages = [*_earlier(body, recording), *messages_of(body.get("input"))]
        system = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        self.chat = {**given(body, NAMES), **_effort(body), **_tools(body), "messages": [*system, *self._messages]}

    def answer(self, completion: Body) -> Body:
        reply = CompletionParts.of(completion)
        identifier = f"resp_{uuid.uuid4().hex}"
        if self._body.get("store") is not False:
            answer = assistant(reply.text, reply.thought or None, reply.calls)
            self._recording.stored[identifier] = [*self._messages, answer]
        cut = reply.finish_reason == "length"
        return {
            "id": identifier,
            "object": "response",
            "created_at": int(time.time()),
            "model": completion.get("model") or self.chat.get("model", ""),
            "status": "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": list(self._output(reply, "incomplete" if cut else "completed")),
            **{name: self._body.get(name) for name in ECHOED},
            "parallel_tool_calls": self._body.get("parallel_tool_calls", True),
            "text": {"format": PLAIN_TEXT},
            "tool_choice": self._body.get("tool_choice") or "auto",
            "tools": self._body.get("tools") or [],
            "usage": _usage(reply),
        }

    def events(self, answer: Body) -> Iterator[bytes]:
        return events(answer)

    def _output(self, reply: CompletionParts, status: str) -> Iterator[dict[str, Any]]:
        if reply.thought:
            content = [{"type": "reasoning_text", "text": reply.thought}]
            kept = (
                encoded_reasoning(reply.thought) if ENCRYPTED_REASONING in (self._body.get("include") or ()) else None
            )
            yield {"type": "reasoning", "id": _new("rs"), "summary": [], "content": content, "encrypted_content": kept}
        if reply.text or not (reply.thought or reply.calls):
            text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            yield {"type": "message", "id": _new("msg"), "role": "assistant", "status": status, "content": [text]}
        for one in reply.calls:
            yield self._called(one, status)

    def _called(self, one: Mapping[str, Any], status: str) -> dict[str, Any]:
        name, arguments = one["function"]["name"], one["function"]["arguments"]
        item = {"call_id": one["id"], "name": name, "status": status}
        if name in self._freeform:
            return {"type": "custom_tool_call", "id": _new("ctc"), **item, "input": _freeform(arguments)}
        return {"type": "function_call", "id": _new("fc"), **item, "arguments": arguments}


class ResponsesApi(ChatApi):
    """OpenAI's Responses API."""

    def exchange(self, body: Mapping[str, Any], recording: Recording) -> Exchange:
        return ResponsesExchange(body, recording)

    def error_event(self, refusal: Refusal) -> bytes:
        return error_event(refusal)


def _new(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"


def _earlier(body: Mapping[str, Any], recording: Recording) -> list[dict[str, Any]]:
    """The conversation that this request continues."""
    identifier = body.get("previous_response_id")
    if identifier is None:
        return []
    if identifier not in recording.stored:
        message = f"previous_response_id: no response {identifier!r} of this episode is stored"
        raise invalid(message, "previous_response_id", code="previous_response_not_found")
    return recording.stored[identifier]


def _effort(body: Mapping[str, Any]) -> dict[str, Any]:
    form = (mapping(mapping(body, "text"), "format", "text.") or PLAIN_TEXT).get("type")
    if form != "text":
        raise unsupported("text.format.type", form)
    effort = mapping(body, "reasoning").get("effort")
    return {"reasoning_effort": effort} if effort else {}


def _tools(body: Mapping[str, Any]) -> dict[str, Any]:
    """The client's own tools."""
    shown = []
    for tool in mappings(body, "tools"):
        if tool.get("type") == "function":
            shown.append(function(tool, tool.get("parameters")))
        elif tool.get("type") == "custom":
            shown.append(function(tool, FREEFORM_SCHEMA))
        else:
            logger.warning("the tool %s runs on OpenAI's servers and is left out", tool.get("type"))
    return {"tools": shown} if shown else {}


def _freeform(arguments: str) -> str:
    try:
        return str(json.loads(arguments).get(FREEFORM, ""))
    except (AttributeError, ValueError):
        return arguments


def _usage(reply: CompletionParts) -> dict[str, Any]:
    return {
        "input_tokens": reply.prompt_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens},
        "output_tokens": reply.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
