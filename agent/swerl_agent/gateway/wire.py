"""Answers in OpenAI's formats: one object, or the chunks of a stream. Pure except for ids and time stamps."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .answers import Answer
from .request import ChatRequest

PIECE = 200  # characters per chunk of a stream


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces of at most PIECE characters."""
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def completion(request: ChatRequest, answer: Answer) -> dict[str, Any]:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": _content(answer), "refusal": None}
    if calls := _calls(answer):
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": answer.finish_reason,
        "logprobs": _logprobs(answer) if request.logprobs else None,
    }
    if answer.matched_stop:
        choice["matched_stop"] = answer.matched_stop  # SGLang's field
    return {**_head(request, answer), "choices": [choice], "usage": _usage(answer)}


def chunks(request: ChatRequest, whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The completion as stream chunks; the last one has the usage if the request includes it."""
    choice = whole["choices"][0]
    message = choice["message"]
    head = {key: whole.get(key) for key in ("id", "created", "model", "system_fingerprint")}
    head["object"] = "chat.completion.chunk"
    usage = bool(request.stream_options and request.stream_options.include_usage)

    def chunk(delta: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        part = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None, **more}
        return {**head, "choices": [part], **({"usage": None} if usage else {})}

    yield chunk({"role": "assistant", "content": ""}, logprobs=choice.get("logprobs"))
    if thought := message.get("reasoning_content"):
        yield chunk({"reasoning_content": thought})
    for piece in pieces(message.get("content") or ""):
        yield chunk({"content": piece})
    for number, call in enumerate(message.get("tool_calls") or ()):
        yield chunk({"tool_calls": [{**call, "index": number}]})
    yield chunk({}, finish_reason=choice.get("finish_reason"))
    if usage:
        yield {**head, "choices": [], "usage": whole.get("usage")}


def models(name: str) -> dict[str, Any]:
    """List with the single model, for clients of OpenAI and of Anthropic."""
    anthropic = {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    model = {"id": name, "object": "model", "created": 0, "owned_by": "swe-rl", **anthropic}
    return {"object": "list", "data": [model], "has_more": False, "first_id": name, "last_id": name}


def _head(request: ChatRequest, answer: Answer) -> dict[str, Any]:
    versions = answer.generation.weight_versions
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "system_fingerprint": f"weights-{versions[-1][0]}" if versions else None,
    }


def _content(answer: Answer) -> str | None:
    return answer.message.content or (None if answer.message.calls else "")


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": name, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for name, call in zip(answer.call_ids, answer.message.calls, strict=True)
    ]


def _logprobs(answer: Answer) -> dict[str, Any]:
    pieces = [
        {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
        for text, logprob in answer.pieces
    ]
    return {"content": pieces, "refusal": None}


def _usage(answer: Answer) -> dict[str, int]:
    sampled = len(answer.generation.output_ids)
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": sampled,
        "total_tokens": answer.prompt_tokens + sampled,
    }
