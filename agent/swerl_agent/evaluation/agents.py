"""The agents that may be asked for by name, opened.

Guarantee: a package that lacks, and prompts that cannot be read, are found before the model or the cluster is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import get_args

from swerl_api import AgentKind

from swerl_agent.episode import Agent, AgentLimits, BuiltinAgent, Engine, HFTokenizer, PromptError, Prompts
from swerl_agent.gateway import Gateway

AGENTS: tuple[str, ...] = get_args(AgentKind)
BUILTIN, MINI_SWE_AGENT = AGENTS


@asynccontextmanager
async def opened_agent(
    name: str, engine: Engine, tokenizer: HFTokenizer, prompts: str | None, limits: AgentLimits
) -> AsyncIterator[Agent]:
    """The agent `name`, one of AGENTS; `prompts` is YAML in its own format, by default what comes with it.

    Raises PromptError.
    """
    if name == BUILTIN:
        yield BuiltinAgent(engine, tokenizer, Prompts.of(limits.protocol, prompts), limits)
        return
    package = _mini_swe_agent()
    agent = package.MiniSweAgent.of(limits.protocol, prompts)
    async with Gateway(engine, tokenizer) as gateway:
        yield package.MiniSweAgentEpisodes(gateway, agent, limits)


def _mini_swe_agent() -> ModuleType:
    try:
        from swerl_agent.integrations import mini_swe_agent_episode
    except ImportError as error:
        raise PromptError(f"the agent mini-swe-agent needs `pip install 'swe-rl[mini-swe-agent]'`: {error}") from error
    return mini_swe_agent_episode
