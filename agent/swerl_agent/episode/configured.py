"""What a spec's `agent` section asks for, made."""

from __future__ import annotations

from pathlib import Path

from swerl_api import AgentSpec

from .prompts import PromptError
from .protocol import PROTOCOLS
from .tokenizer_folder import TokenizerError
from .tokens import HFTokenizer


def prompts_text(agent: AgentSpec, folder: Path) -> str | None:
    """The section's own prompts, None for the agent's; `folder` holds the keys of the ConfigMap. Raises PromptError."""
    templates = agent.prompt_templates
    return read_prompts(folder / templates.config_map.key, "agent.promptTemplates.configMap") if templates else None


def read_prompts(path: Path, named_by: str) -> str:
    """What a file of prompts holds; `named_by` is the field or option that led to it. Raises PromptError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path} cannot be read: {error}; check {named_by}") from error


def agent_tokenizer(agent: AgentSpec, folder: str | Path) -> HFTokenizer:
    """The tokenizer in `folder`, as protocol and chat template want it. Raises TokenizerError."""
    path = agent.chat_template
    try:
        template = Path(path).read_text(encoding="utf-8") if path else None
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path} cannot be read: {error}; check agent.chatTemplate") from error
    return HFTokenizer(folder, chat_template=template, tools=PROTOCOLS[agent.protocol].tools)
