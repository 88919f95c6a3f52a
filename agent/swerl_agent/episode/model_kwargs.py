"""Further fields of the model's requests: `agent.modelKwargs`, mini-swe-agent's `model_kwargs`.

Guarantees: `extra_body` counts as its own content. With an engine a field that would change nothing is refused by name;
with a chat completions server fields pass as they are, but for those that the agent sets itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from swerl_api import AgentSpec

from .prompts import PromptError
from .protocol import agent_protocol
from .tokens import HFTokenizer

NEUTRAL = {"top_p": (1,), "top_k": (-1, 0), "min_p": (0,)}
EXTRA = "extra_body"
# What the agent sets itself -> where it is set.
OWN = {
    "model": "the model's name of the evaluation",
    "temperature": "the temperature of the job or evaluation",
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), "agent.maxTokensPerTurn"),
    **dict.fromkeys(("messages", "tools", "tool_choice", "stop", "stream", "n"), "agent.protocol"),
}


class SamplingFields(BaseModel):
    """Fields that say how an engine samples, besides the temperature."""

    model_config = ConfigDict(extra="forbid")

    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    chat_template_kwargs: dict[str, Any] | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None

    @property
    def truncation(self) -> dict[str, float]:
        """Which unlikely tokens are left out, in place of the engine's own settings; what leaves out none is absent."""
        sampling = {"top_p": self.top_p, "top_k": self.top_k, "min_p": self.min_p}
        return {name: value for name, value in sampling.items() if value is not None and value not in NEUTRAL[name]}

    @property
    def template_options(self) -> dict[str, Any]:
        """What the chat template reads besides messages and tools."""
        thinks = False if self.reasoning_effort == "none" else self.enable_thinking
        named = {"enable_thinking": thinks, "reasoning_effort": self.reasoning_effort}
        return {name: value for name, value in named.items() if value is not None} | (self.chat_template_kwargs or {})


def sampling_fields(spec: AgentSpec) -> SamplingFields:
    """Those of an agent with an engine; raises PromptError naming the first invalid field."""
    try:
        return SamplingFields.model_validate(request_fields(spec))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        unknown = first["type"] == "extra_forbidden"
        why = f"is none of {', '.join(SamplingFields.model_fields)}" if unknown else first["msg"]
        raise PromptError(f"agent.modelKwargs: {'.'.join(map(str, first['loc']))}: {why}") from error


def request_fields(spec: AgentSpec) -> dict[str, Any]:
    """The fields, those of `extra_body` among them; raises PromptError for one that the agent sets itself."""
    given = dict(spec.model_kwargs or {})
    extra = given.pop(EXTRA, None) or {}
    if not isinstance(extra, Mapping):
        raise PromptError(f"agent.modelKwargs: {EXTRA} must be an object")
    fields = {**given, **extra}
    if own := next((name for name in fields if name in OWN), None):
        raise PromptError(f"agent.modelKwargs: {own} is set by {OWN[own]}; leave it out")
    return fields


def with_template_options(tokenizer: HFTokenizer, spec: AgentSpec) -> HFTokenizer:
    """`tokenizer` as the chat template shows conversations with these fields; raises PromptError, TokenizerError."""
    options = sampling_fields(spec).template_options
    return tokenizer.with_tools(agent_protocol(spec).tools, options) if options else tokenizer
