"""Prompts and tokenizer that an `agent` section names."""

from __future__ import annotations

from pathlib import Path

from swerl_api import AgentSpec

from .prompts import PromptError
from .protocol import PROTOCOLS
from .tokenizer_folder import TokenizerError
from .tokens import HFTokenizer


def prompts_text(spec: AgentSpec, folder: Path) -> str | None:
    """The custom prompts of `spec`, None for the built-in ones; `folder` holds the ConfigMap's keys.

    Raises PromptError.
    """
    templates = spec.prompt_templates
    return read_prompts(folder / templates.config_map.key, "agent.promptTemplates.configMap") if templates else None


def read_prompts(path: Path, named_by: str) -> str:
    """The content of a prompts file; `named_by` is the field or option that names it. Raises PromptError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path} cannot be read: {error}; check {named_by}") from error


def agent_tokenizer(spec: AgentSpec, folder: str | Path) -> HFTokenizer:
    """The tokenizer in `folder`, with the chat template and tools of `spec`. Raises TokenizerError."""
    path = spec.chat_template
    try:
        template = Path(path).read_text(encoding="utf-8") if path else None
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path} cannot be read: {error}; check agent.chatTemplate") from error
    return HFTokenizer(folder, chat_template=template, tools=PROTOCOLS[spec.protocol].tools)
