"""A response of OpenAI's Responses API as the events of a stream. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import Refusal
from .exchange import event
from .wire import pieces

CALLS = {  # what the events of a call's text are named after, and its field
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}


def events(response: Mapping[str, Any]) -> Iterator[bytes]:
    """All events of a whole response, numbered."""
    for number, (name, content) in enumerate(_events(response)):
        yield event({"type": name, **content, "sequence_number": number}, name)


def error_event(refusal: Refusal) -> bytes:
    """An error as the last event."""
    return event({"type": "error", **refusal.body, "message": refusal.message, "code": refusal.code}, "error")


def _events(response: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    started = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield "response.created", {"response": started}
    yield "response.in_progress", {"response": started}
    for index, item in enumerate(response["output"]):
        yield "response.output_item.added", {"output_index": index, "item": _begun(item)}
        yield from _inside(item, {"item_id": item["id"], "output_index": index})
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield f"response.{response['status']}", {"response": response}


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    status = {"status": "in_progress"} if "status" in item else {}
    if item["type"] in CALLS:
        return {**item, **status, CALLS[item["type"]][1]: ""}
    return {**item, **status, "content": []}


def _inside(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if item["type"] in CALLS:
        name, field = CALLS[item["type"]]
        yield from _text(name, field, item[field], {**place, "name": item["name"]})
        return
    for number, part in enumerate(item["content"]):
        where = {**place, "content_index": number}
        yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
        yield from _text(part["type"], "text", part["text"], {**where, "logprobs": []})
        yield "response.content_part.done", {**where, "part": part}


def _text(name: str, field: str, text: str, place: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in pieces(text):
        yield f"response.{name}.delta", {**place, "delta": piece}
    yield f"response.{name}.done", {**place, field: text}
