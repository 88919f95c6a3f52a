"""Answers in OpenAI's formats: one object, or chunks of a stream. Pure but for ids and the clock."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .answers import Answer
from .request import ChatRequest

PIECE = 200  # characters in a chunk of a stream


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
    return {**_head("chat.completion", request, answer), "choices": [choice], "usage": _usage(answer)}


def chunks(request: ChatRequest, answer: Answer) -> Iterator[dict[str, Any]]:
    """The same as a stream; the last chunk has the usage, when that was asked for."""
    head = _head("chat.completion.chunk", request, answer)
    usage = bool(request.stream_options and request.stream_options.include_usage)

    def chunk(delta: Mapping[str, Any], **choice: Any) -> dict[str, Any]:
        whole = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None, **choice}
        return {**head, "choices": [whole], **({"usage": None} if usage else {})}

    yield chunk({"role": "assistant", "content": ""}, logprobs=_logprobs(answer) if request.logprobs else None)
    content = _content(answer) or ""
    for start in range(0, len(content), PIECE):
        yield chunk({"content": content[start : start + PIECE]})
    for number, call in enumerate(_calls(answer)):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, finish_reason=answer.finish_reason)
    if usage:
        yield {**head, "choices": [], "usage": _usage(answer)}


def models(name: str) -> dict[str, Any]:
    """The list with the one model there is."""
    return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "swe-rl"}]}


def _head(kind: str, request: ChatRequest, answer: Answer) -> dict[str, Any]:
    versions = answer.generation.weight_versions
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
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
