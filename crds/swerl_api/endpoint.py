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
    for chat-completions the base of an OpenAI-compatible API, which usually ends with /v1."""
    api: EndpointApi = "generate"
    """generate: SGLang's own API, token-in/token-out. chat-completions: OpenAI's API with messages, as of vLLM, SGLang
    and hosted models; episodes then have no token ids and no log-probabilities."""
    tokenizer: SourceSpec | None = None
    """Folder with the served model's tokenizer; with api generate, and only then."""
    model: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Name of the model at the server. Required with api chat-completions. With generate, the evaluation fails if the
    server reports another name."""
    api_key_secret: SecretKey | None = None
    """The server's API key; absent means none. Only with api chat-completions."""

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
