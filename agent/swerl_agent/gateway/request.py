"""Parses requests for a chat completion.

Guarantees: an unsupported field that would change the answer is refused by name, never ignored. Changes that the OpenAI
client and LiteLLM make to a returned answer (null content, text parts, call ids, key order) have no effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from swerl_agent.episode import SamplingFields
from swerl_agent.episode.parsing import Call, split_thought

from .errors import Refusal, invalid

UNSUPPORTED = ("extra_forbidden", "none_required")  # error types of unsupported fields


def _text(content: Any) -> Any:
    """Content as one string; null becomes ''."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    for number, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise ValueError(f"part {number} is of type {kind!r}: only text is supported, no images, audio or files")
    return "".join(part["text"] for part in content)


def _arguments(given: Any) -> Any:
    """Arguments of a call as a JSON object; text that is no JSON object stays text."""
    if not isinstance(given, str):
        return given
    try:
        parsed = json.loads(given)
    except ValueError:
        return given
    return parsed if isinstance(parsed, dict) else given


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool, checked; raises ValueError for an unsupported type."""
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("only tools of type function, with a name, are supported")
    return tool


def _list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


class _CalledFunction(BaseModel):
    name: str
    arguments: Annotated[dict[str, Any] | str, BeforeValidator(_arguments)]


class _ToolCall(BaseModel):
    function: _CalledFunction


class ChatMessage(BaseModel):
    """One message; unknown keys are dropped."""

    role: Annotated[
        Literal["system", "user", "assistant", "tool"],
        BeforeValidator(lambda role: "system" if role == "developer" else role),
    ]
    content: Annotated[str, BeforeValidator(_text)] = ""
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    function_call: None = None

    @property
    def calls(self) -> list[Call]:
        """Tool calls whose arguments are JSON objects."""
        functions = [call.function for call in self.tool_calls or ()]
        return [Call(call.name, call.arguments) for call in functions if isinstance(call.arguments, dict)]

    @property
    def text(self) -> str:
        """Thought, content, and calls whose arguments are no JSON object, as one text.

        Clients may split the thought off. Chat templates reject the malformed calls.
        """
        malformed_calls = [call.function for call in self.tool_calls or () if isinstance(call.function.arguments, str)]
        malformed = "".join(
            f'\n<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'
            for call in malformed_calls
        )
        thought = f"<think>{self.reasoning_content}</think>" if self.reasoning_content else ""
        return thought + self.content + malformed

    def template(self) -> dict[str, Any]:
        """The message as input of the chat template."""
        shown: dict[str, Any] = {"role": self.role, "content": self.text}
        if self.calls:
            functions = [{"name": call.name, "arguments": call.arguments} for call in self.calls]
            shown["tool_calls"] = [{"type": "function", "function": function} for function in functions]
        return shown

    def identity(self, *, thought: bool = True) -> str:
        """A key that is equal for equivalent messages; `thought`: whether an answer's thinking block counts."""
        thought_text, content = split_thought(self.text) if self.role == "assistant" else ("", self.text)
        return json.dumps(
            [
                self.role,
                content.strip() if self.role == "assistant" else content,
                thought_text.strip() if thought else "",
                [[call.name, call.arguments] for call in self.calls],
            ],
            sort_keys=True,
        )


class _StreamOptions(BaseModel):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatRequest(SamplingFields):
    """Body of a request. Fields that accept only their neutral value are unsupported; those of type Any are ignored."""

    model: str = ""
    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[Annotated[dict[str, Any], AfterValidator(_tool)]] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    stop: Annotated[list[Annotated[str, Field(min_length=1)]] | None, BeforeValidator(_list)] = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: int | None = None
    logprobs: bool | None = None
    n: Literal[1] | None = None
    top_logprobs: Literal[0] | None = None
    repetition_penalty: Annotated[float, Field(ge=1, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    response_format: dict[Literal["type"], Literal["text"]] | None = None
    parallel_tool_calls: Any = None
    user: Any = None
    store: Any = None
    metadata: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    @property
    def shown_tools(self) -> list[dict[str, Any]]:
        """Tools to show in the model's prompt."""
        return (self.tools or []) if self.tool_choice != "none" else []

    @property
    def wanted_tokens(self) -> int | None:
        """Maximum tokens of the answer that the client requests; None without a limit."""
        limits = [limit for limit in (self.max_tokens, self.max_completion_tokens) if limit is not None]
        return min(limits, default=None)


def merged(body: Any) -> Mapping[str, Any]:
    """The body with its field `extra_body` merged in, which some clients send. Raises Refusal."""
    if not isinstance(body, Mapping):
        raise invalid("the body must be a JSON object", None)
    extra = body.get("extra_body") or {}
    if not isinstance(extra, Mapping):
        raise invalid("extra_body: must be a JSON object", "extra_body")
    return {**{name: value for name, value in body.items() if name != "extra_body"}, **extra}


def parse(body: Mapping[str, Any]) -> ChatRequest:
    """Parse a merged body; raises Refusal with the name of the first invalid field."""
    try:
        request = ChatRequest.model_validate(body)
    except ValidationError as error:
        raise _refusal(error) from error
    if request.messages[-1].role == "assistant":
        raise invalid(
            "messages: the last one is an answer; end with a user or tool message",
            "messages",
        )
    return request


def _refusal(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False)[0]
    field, *inner = first["loc"]
    where = str(field) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner)
    known = first["type"] not in UNSUPPORTED
    return invalid(f"{where}: {first['msg'] if known else 'is not supported'}", str(field if not known else where))
