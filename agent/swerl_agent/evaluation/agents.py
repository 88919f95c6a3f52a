"""The agents that may be asked for by name, opened.

Guarantees: a package that lacks, and prompts that cannot be read, are found before the model or the cluster is asked; a
server that is spoken to in messages has answered as it will have to before an agent is given out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import ModuleType
from typing import get_args

from swerl_api import AgentKind

from swerl_agent.episode import (
    Agent,
    AgentLimits,
    BuiltinAgent,
    ChatAgent,
    ChatCompletions,
    Engine,
    HFTokenizer,
    PromptError,
    Prompts,
)
from swerl_agent.gateway import Gateway, Relay

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


@asynccontextmanager
async def opened_chat_agent(
    name: str, server: ChatCompletions, prompts: str | None, limits: AgentLimits, *, temperature: float
) -> AsyncIterator[Agent]:
    """The agent `name` with a server that is spoken to in messages; the rest is as in `opened_agent`.

    Raises PromptError, and EndpointError and EngineError when the server will not answer.
    """
    tools = limits.protocol.tools
    check = partial(server.check, max_tokens=limits.max_tokens_per_turn, temperature=temperature, tools=tools)
    if name == BUILTIN:
        if tools:
            raise PromptError(
                f"the builtin agent speaks {limits.protocol.name} in tokens alone; with chat completions choose a "
                "protocol with blocks, such as mini-swe-agent-2, or the agent mini-swe-agent"
            )
        agent = ChatAgent(server, Prompts.of(limits.protocol, prompts), limits)
        await check()
        yield agent
        return
    package = _mini_swe_agent()
    other = package.MiniSweAgent.of(limits.protocol, prompts)
    await check()
    async with Relay(server) as relay:
        yield package.MiniSweAgentEpisodes(relay, other, limits)


def _mini_swe_agent() -> ModuleType:
    try:
        from swerl_agent.integrations import mini_swe_agent_episode
    except ImportError as error:
        raise PromptError(f"the agent mini-swe-agent needs `pip install 'swe-rl[mini-swe-agent]'`: {error}") from error
    return mini_swe_agent_episode
