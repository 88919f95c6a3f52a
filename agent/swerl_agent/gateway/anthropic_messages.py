"""Anthropic's Messages API, which Claude Code uses.

Guarantees: a thought is a block of its own, in answers and in the history; cache marks and the client's attribution
line, which change between requests, are not part of the prompt; fields that are unknown here are ignored and logged.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .blocks import (
    assistant,
    blocks,
    call,
    check_fields,
    function,
    given,
    mapping,
    mappings,
    shown,
    string,
    text_of,
    unsupported,
)
from .errors import Refusal, invalid
from .exchange import Api, CompletionParts, Exchange, event
from .recording import Body, Recording
from .wire import pieces

logger = logging.getLogger(__name__)

NAMES = {  # fields with the same meaning in a chat completion
    "model": "model",
    "max_tokens": "max_tokens",
    "stop_sequences": "stop",
    "stream": "stream",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
}
READ = {*NAMES, "system", "messages", "tools", "tool_choice", "thinking", "output_config"}
WITHOUT_EFFECT = {"metadata", "service_tier", "cache_control", "context_management", "inference_geo", "speed", "betas"}
REFUSED = ("mcp_servers", "container", "output_format")
ATTRIBUTION = "x-anthropic-billing-header:"  # begins a block of Claude Code's system prompt that changes per request
SIGNATURE = "swerl"  # clients return thoughts that have one
STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
KINDS = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}  # of errors, by status


class MessagesExchange(Exchange):
    """A message and its answer."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        check_fields(body, READ | WITHOUT_EFFECT, REFUSED, "message")
        self.chat = {**given(body, NAMES), **_thinking(body), **_tools(body), "messages": _messages(body)}

    def answer(self, completion: Body) -> Body:
        reply = CompletionParts.of(completion)
        content: list[dict[str, Any]] = []
        if reply.thought:
            content.append({"type": "thinking", "thinking": reply.thought, "signature": SIGNATURE})
        if reply.text or not (reply.thought or reply.calls):
            content.append({"type": "text", "text": reply.text})
        content += [_tool_use(one) for one in reply.calls]
        return {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": completion.get("model") or self.chat.get("model", ""),
            "content": content,
            "stop_reason": "stop_sequence" if reply.matched_stop else STOPS.get(reply.finish_reason, "end_turn"),
            "stop_sequence": reply.matched_stop,
            "usage": {
                "input_tokens": reply.prompt_tokens - reply.cached_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": reply.cached_tokens,
                "output_tokens": reply.completion_tokens,
            },
        }

    def events(self, answer: Body) -> Iterator[bytes]:
        started: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        usage = {**answer["usage"], "output_tokens": 0}
        yield _event("message_start", message={**answer, **started, "usage": usage})
        for index, block in enumerate(answer["content"]):
            yield _event("content_block_start", index=index, content_block=_empty(block))
            for delta in _deltas(block):
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        ended = {name: answer[name] for name in ("stop_reason", "stop_sequence")}
        yield _event("message_delta", delta=ended, usage=answer["usage"])
        yield _event("message_stop")


class MessagesApi(Api):
    """Anthropic's Messages API."""

    def exchange(self, body: Mapping[str, Any], recording: Recording) -> Exchange:
        return MessagesExchange(body)

    def error(self, refusal: Refusal) -> Body:
        kind = KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
        full = refusal.code == "context_length_exceeded"  # Claude Code shortens its history when it reads these words
        message = f"prompt is too long: {refusal.message}" if full else refusal.message
        return {"type": "error", "error": {"type": kind, "message": message, "code": refusal.code}}

    def error_event(self, refusal: Refusal) -> bytes:
        return event(self.error(refusal), "error")


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    system = [block for block in blocks(body.get("system"), "system") if not _is_attribution(block)]
    messages = [{"role": "system", "content": text_of(system, "system")}] if system else []
    said = body.get("messages")
    if not isinstance(said, list) or not said:
        raise invalid("messages: must be a list with at least one message", "messages")
    for number, message in enumerate(said):
        where = f"messages[{number}]"
        if not isinstance(message, dict):
            raise invalid(f"{where}: must be an object", where)
        if message.get("role") == "assistant":
            messages.append(_assistant(blocks(message.get("content"), where), where))
        elif message.get("role") in ("user", "system"):
            messages += _user_messages(message["role"], blocks(message.get("content"), where), where)
        else:
            raise unsupported(f"{where}.role", message.get("role"))
    return messages


def _is_attribution(block: Mapping[str, Any]) -> bool:
    return str(block.get("text") or "").startswith(ATTRIBUTION)


def _user_messages(role: str, content: list[Mapping[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    """Results of tools as messages of their own, and the other blocks as one message."""
    texts: list[str] = []
    for number, block in enumerate(content):
        place = f"{where}.content[{number}]"
        if block.get("type") == "tool_result":
            if texts:
                yield {"role": role, "content": "\n".join(texts)}
            texts = []
            result = text_of(block.get("content"), f"{place}.content")
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": result}
        else:
            texts.append(shown(block, place))
    if texts or not content:
        yield {"role": role, "content": "\n".join(texts)}


def _assistant(content: list[Mapping[str, Any]], where: str) -> dict[str, Any]:
    thoughts: list[str] = []
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for number, block in enumerate(content):
        place, kind = f"{where}.content[{number}]", block.get("type")
        if kind == "thinking":
            thoughts.append(string(block, "thinking", place))
        elif kind == "tool_use":
            calls.append(call(string(block, "name", place), json.dumps(block.get("input") or {}), block.get("id")))
        elif kind != "redacted_thinking":
            texts.append(shown(block, place))
    return assistant("\n".join(texts), "\n".join(thoughts) if thoughts else None, calls)


def _thinking(body: Mapping[str, Any]) -> dict[str, Any]:
    output, thinking = mapping(body, "output_config"), mapping(body, "thinking")
    if output.get("format"):
        raise invalid("output_config.format: is not supported", "output_config.format")
    effort = {"reasoning_effort": output["effort"]} if output.get("effort") else {}
    return effort | ({"enable_thinking": False} if thinking.get("type") == "disabled" else {})


def _tools(body: Mapping[str, Any]) -> dict[str, Any]:
    """The client's own tools; those that Anthropic's servers run are left out."""
    choice = mapping(body, "tool_choice").get("type", "auto")
    if choice not in ("auto", "none"):
        raise unsupported("tool_choice.type", choice)
    tools = mappings(body, "tools")
    own = [tool for tool in tools if tool.get("type", "custom") in ("custom", None)]
    for tool in tools:
        if tool not in own:
            logger.warning("the tool %s runs on Anthropic's servers and is left out", tool.get("type"))
    shown_tools = [function(tool, tool.get("input_schema")) for tool in own]
    return {"tools": shown_tools, "tool_choice": choice} if shown_tools else {}


def _tool_use(one: Mapping[str, Any]) -> dict[str, Any]:
    try:
        arguments = json.loads(one["function"]["arguments"] or "{}")
    except ValueError:  # of a relayed model; the client's tool refuses it
        arguments = {"arguments": one["function"]["arguments"]}
    return {"type": "tool_use", "id": one["id"], "name": one["function"]["name"], "input": arguments}


def _empty(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block as it begins in a stream."""
    empty_blocks: dict[str, dict[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **empty_blocks[block["type"]]}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
    elif block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        arguments = json.dumps(block["input"])
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments))


def _event(name: str, **content: Any) -> bytes:
    return event({"type": name, **content}, name)
