"""From a generation to the client's answer: text, tool calls, finish reason. Pure."""

from __future__ import annotations

import bisect
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swerl_agent.episode import Generation, Tokenizer
from swerl_agent.episode.parsing import Call, after_reasoning, find_calls, without_calls
from swerl_agent.episode.transcript import answer_text

from .request import ChatMessage, ChatRequest
from .responses_input import call_id


@dataclass(frozen=True)
class Answer:
    """One answer."""

    text: str  # all that was sampled
    message: ChatMessage  # what the client gets
    call_ids: list[str]  # of its calls
    finish_reason: str  # stop | length | tool_calls
    matched_stop: str | None  # the stop string that ended it
    generation: Generation
    prompt_tokens: int
    pieces: list[tuple[str, float]]  # where asked for, text and log-prob of each token before the one that ends it


def answer(tokenizer: Tokenizer, generation: Generation, request: ChatRequest, *, prompt_tokens: int) -> Answer:
    """The answer of a generation, cut behind the token that completes one of the request's stop strings."""
    generation, text, matched = _stopped(tokenizer, generation, request.stop or ())
    identifier = uuid.uuid4().hex[:22]
    calls = _calls(text, request.shown_tools)
    message: dict[str, Any] = {"role": "assistant", "content": without_calls(text) if calls else text}
    if calls:
        message["tool_calls"] = [{"function": {"name": call.name, "arguments": call.arguments}} for call in calls]
    return Answer(
        text,
        ChatMessage.model_validate(message),
        [call_id(identifier, number) for number, _ in enumerate(calls)],
        "length" if generation.finish_reason == "length" else "tool_calls" if calls else "stop",
        matched,
        generation,
        prompt_tokens,
        _pieces(tokenizer, generation) if request.logprobs else [],
    )


def _pieces(tokenizer: Tokenizer, generation: Generation) -> list[tuple[str, float]]:
    ids = generation.output_ids
    ended = bool(ids) and ids[-1] in tokenizer.stop_token_ids
    shown = list(zip(ids, generation.logprobs, strict=True))[: len(ids) - ended]
    return [(tokenizer.decode([index]), logprob) for index, logprob in shown]


def _stopped(tokenizer: Tokenizer, generation: Generation, stop: Sequence[str]) -> tuple[Generation, str, str | None]:
    """The generation up to the token that completes a stop string, as if the engine had stopped there; its text before
    that string; the string, None without one."""
    text = answer_text(tokenizer, generation)
    places = [(text.find(one), one) for one in stop if one in text]
    if not places:
        return generation, text, None
    ids = generation.output_ids

    def has_stop(count: int) -> bool:
        return any(one in tokenizer.decode(ids[:count]) for one in stop)

    count = bisect.bisect_left(range(len(ids) + 1), True, key=has_stop)
    spans = [(version, start, min(end, count)) for version, start, end in generation.weight_versions if start < count]
    return Generation(ids[:count], generation.logprobs[:count], "stop", spans), text[: min(places)[0]], min(places)[1]


def _calls(text: str, tools: Sequence[Mapping[str, Any]]) -> list[Call]:
    """The calls after the thought, typed as the tools say; none when one of them is malformed or calls no tool."""
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    calls = find_calls(after_reasoning(text)) if tools else []
    known = [call for call in calls if call and call.name in schemas]
    return [_typed(call, schemas[call.name]) for call in known] if len(known) == len(calls) else []


def _typed(call: Call, schema: Mapping[str, Any]) -> Call:
    """Arguments that came as text, in the types of the schema where they can be read so."""
    properties = schema.get("properties") or {}
    return Call(call.name, {name: _read(value, properties.get(name) or {}) for name, value in call.arguments.items()})


def _read(value: Any, schema: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or schema.get("type", "string") == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
