"""Content of messages in Anthropic's and OpenAI's newer API: lists of typed blocks. Pure.

Guarantee: content that the model cannot read, such as an image, is replaced by a line that names it; a block of an
unknown type is refused by name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .errors import Refusal, invalid

logger = logging.getLogger(__name__)

TEXTS = {
    **dict.fromkeys(("text", "input_text", "output_text", "reasoning_text", "summary_text"), "text"),
    "refusal": "refusal",
}
UNSEEN = {  # types of blocks with content that is no text, and what the model is shown instead
    "image": "an image",
    "input_image": "an image",
    "document": "a document",
    "input_file": "a file",
    "input_audio": "a recording",
}


def blocks(content: Any, where: str) -> list[Mapping[str, Any]]:
    """Content as a list of blocks; raises Refusal."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if content is None:
        return []
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise invalid(f"{where}: must be text or a list of blocks", where)
    return content


def text_of(content: Any, where: str) -> str:
    """Content as one text; raises Refusal."""
    return "\n".join(shown(block, f"{where}[{number}]") for number, block in enumerate(blocks(content, where)))


def shown(block: Mapping[str, Any], where: str) -> str:
    """What the model reads of a block; raises Refusal."""
    kind = block.get("type")
    if kind in TEXTS:
        return string(block, TEXTS[kind], where)
    source = block.get("source")
    if kind == "document" and isinstance(source, dict) and source.get("type") == "text":
        return string(source, "data", where)
    if kind in UNSEEN:
        return f"({UNSEEN[kind]}, which this model cannot read)"
    raise unsupported(f"{where}.type", kind)


def mapping(value: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    """A field that must be an object, {} where it is not there; raises Refusal."""
    found, field = value.get(name), f"{where}{name}"
    if found is not None and not isinstance(found, dict):
        raise invalid(f"{field}: must be an object", field)
    return found or {}


def mappings(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A field that must be a list of objects, [] where it is not there; raises Refusal."""
    found = value.get(name)
    if found is not None and not (isinstance(found, list) and all(isinstance(item, dict) for item in found)):
        raise invalid(f"{name}: must be a list of objects", name)
    return found or []


def string(value: Mapping[str, Any], name: str, where: str) -> str:
    """A field that must be text; raises Refusal."""
    if not isinstance(value.get(name), str):
        raise invalid(f"{where}.{name}: must be text", f"{where}.{name}")
    return str(value[name])


def call(name: str, arguments: str, call_id: Any) -> dict[str, Any]:
    """A tool call of a chat completion."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def function(tool: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    """A tool of a chat completion with these parameters."""
    described = {"description": tool["description"]} if tool.get("description") else {}
    parameters = schema if isinstance(schema, dict) else {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": tool.get("name"), **described, "parameters": parameters}}


def unsupported(where: str, value: Any) -> Refusal:
    """The refusal of a value that would change the answer."""
    return invalid(f"{where}: {json.dumps(value)} is not supported", where)


def check_fields(body: Mapping[str, Any], known: Collection[str], refused: Sequence[str], what: str) -> None:
    """Raises Refusal for the first of `refused` that the body has a value for; logs the fields that are unknown."""
    for name in refused:
        if body.get(name):
            raise invalid(f"{name}: is not supported", name)
    for name in sorted(body.keys() - {*known, *refused}):
        logger.warning("the field %s of a %s is unknown and has no effect", name, what)


def assistant(text: str, thought: str | None, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An answer as a message of a chat completion; `thought`: None for none."""
    thinking = {} if thought is None else {"reasoning_content": thought}
    return {"role": "assistant", "content": text, **thinking, **({"tool_calls": calls} if calls else {})}


def given(body: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the body that have a value, under other names."""
    return {other: body[name] for name, other in names.items() if body.get(name) is not None}
