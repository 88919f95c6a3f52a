"""Opens the agent that an AgentSpec names.

Guarantees: a missing package and unreadable prompts are reported before any request to the model or the cluster. A chat
completions server has answered one check request before its agent is returned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import ModuleType
from typing import get_args

from swerl_api import AgentKind, AgentSpec

from swerl_agent.episode import (
    Agent,
    BuiltinAgent,
    ChatAgent,
    ChatCompletions,
    Engine,
    HFTokenizer,
    PromptError,
    Prompts,
    agent_protocol,
    request_fields,
    with_template_options,
)
from swerl_agent.gateway import Gateway, Relay

AGENTS: tuple[str, ...] = get_args(AgentKind)
BUILTIN, MINI_SWE_AGENT = AGENTS


@asynccontextmanager
async def open_agent(
    spec: AgentSpec, engine: Engine, tokenizer: HFTokenizer, prompts: str | None
) -> AsyncIterator[Agent]:
    """The agent of `spec` with an engine; `prompts` is YAML in the agent's own format, by default its built-in ones.

    Raises PromptError.
    """
    protocol = agent_protocol(spec)
    if spec.kind == BUILTIN:
        shown = with_template_options(tokenizer, spec)
        yield BuiltinAgent(engine, shown, Prompts.of(protocol, prompts), spec)
        return
    _refuse_model_kwargs(spec)
    package = _mini_swe_agent()
    agent = package.MiniSweAgent.of(protocol, prompts)
    async with Gateway(engine, tokenizer) as gateway:
        yield package.MiniSweAgentEpisodes(gateway, agent, spec)


@asynccontextmanager
async def open_chat_agent(
    spec: AgentSpec, server: ChatCompletions, prompts: str | None, *, temperature: float
) -> AsyncIterator[Agent]:
    """The agent of `spec` with a chat completions server; `prompts` as in `open_agent`.

    Raises PromptError, and EndpointError or EngineError when the server does not answer as needed.
    """
    protocol = agent_protocol(spec)
    tools = protocol.tools
    longest = spec.max_tokens_per_turn
    check = partial(server.check, max_tokens=longest, temperature=temperature, tools=tools, **request_fields(spec))
    if spec.kind == BUILTIN:
        if tools:
            raise PromptError(
                f"the builtin agent supports {protocol.name} with SGLang's /generate only; with chat completions use "
                "a protocol with blocks, such as mini-swe-agent-2, or the agent mini-swe-agent"
            )
        agent = ChatAgent(server, Prompts.of(protocol, prompts), spec)
        await check()
        yield agent
        return
    _refuse_model_kwargs(spec)
    package = _mini_swe_agent()
    mini = package.MiniSweAgent.of(protocol, prompts)
    await check()
    async with Relay(server) as relay:
        yield package.MiniSweAgentEpisodes(relay, mini, spec)


def _refuse_model_kwargs(spec: AgentSpec) -> None:
    if spec.model_kwargs:
        where = "model.model_kwargs of its own configuration, which the prompts hold"
        raise PromptError(f"agent.modelKwargs is of the builtin agent; mini-swe-agent reads {where}")


def _mini_swe_agent() -> ModuleType:
    try:
        from swerl_agent.integrations import mini_swe_agent_episode
    except ImportError as error:
        remedy = (
            "install the release's wheel with [mini-swe-agent], or in a checkout: uv pip install '.[mini-swe-agent]'"
        )
        raise PromptError(f"the agent mini-swe-agent needs packages that are missing ({error}); {remedy}") from error
    return mini_swe_agent_episode
