"""What a spec's `agent` section asks for, made."""

from __future__ import annotations

from pathlib import Path

from swerl_api import Agent

from .prompts import PromptError
from .protocol import PROTOCOLS
from .tokens import HFTokenizer


def prompts_text(agent: Agent, folder: Path) -> str | None:
    """The section's own prompts, None for the agent's; `folder` holds the keys of the ConfigMap. Raises PromptError."""
    templates = agent.prompt_templates
    if templates is None:
        return None
    path = folder / templates.config_map.key
    try:
        return path.read_text()
    except OSError as error:
        raise PromptError(f"{path} cannot be read: {error}; check agent.promptTemplates.configMap") from error


def agent_tokenizer(agent: Agent, folder: str | Path) -> HFTokenizer:
    """The tokenizer in `folder`, as protocol and chat template want it. Raises TokenizerError, OSError."""
    template = Path(agent.chat_template).read_text() if agent.chat_template else None
    return HFTokenizer(folder, chat_template=template, tools=PROTOCOLS[agent.protocol].tools)
