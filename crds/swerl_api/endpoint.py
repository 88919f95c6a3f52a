"""A model that is already served, and the API it is requested with."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import ApiModel, Name, Rule, Text
from .source import SourceSpec

EndpointApi = Literal["generate", "chat-completions"]


class SecretKey(ApiModel):
    """One key of a Secret."""

    name: Name
    """Secret in the same namespace."""
    key: Text = Field(min_length=1)
    """Key inside it."""


class EndpointSpec(ApiModel):
    """A running server."""

    url: Annotated[str, Field(max_length=512, pattern=r"^https?://[^/]+")]
    """Address as the shards' Pods reach it: for generate an SGLang server or router, e.g. http://router.serving:30000;
    for chat-completions the base of an OpenAI-compatible API, which mostly ends with /v1."""
    api: EndpointApi = "generate"
    """generate: SGLang's own API, token-in/token-out. chat-completions: OpenAI's, in messages, as vLLM, SGLang and
    hosted models speak it; then episodes have no token ids and no log-probabilities."""
    tokenizer: SourceSpec | None = None
    """Folder with the served model's tokenizer; with api generate, and only then."""
    model: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """What the server calls the model. With api chat-completions it is asked for by this name, which must be given;
    with generate the evaluation fails when the server says that it serves another one."""
    api_key_secret: SecretKey | None = None
    """Where the server's API key is; absent means that it wants none. Of api chat-completions alone."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.tokenizer) == (self.api == 'generate')",
            "give model.endpoint.tokenizer with api generate, which exchanges tokens, and only then",
            ".tokenizer",
        ),
        Rule(
            "has(self.model) || self.api == 'generate'",
            "give model.endpoint.model, the server's name of the model, with api chat-completions",
            ".model",
        ),
        Rule(
            "!has(self.apiKeySecret) || self.api == 'chat-completions'",
            "model.endpoint.apiKeySecret needs api chat-completions; requests to generate carry no key",
            ".apiKeySecret",
        ),
    )
