"""Options of the model's server, and the agent that uses it.

Guarantee: conflicting options and a missing API key are one-line errors before the first request.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import get_args

import aiohttp
import click
from swerl_api.endpoint import EndpointApi

from swerl_agent.episode import (
    Agent,
    ChatCompletions,
    HFTokenizer,
    SGLangEngine,
    agent_protocol,
    check_served,
    environment_proxy,
)
from swerl_agent.evaluation import open_agent, open_chat_agent

from .command import Options, together
from .options import agent_spec
from .values import HTTP_URL, PATH

GENERATE, CHAT = get_args(EndpointApi)
ONLY_OF = {"tokenizer": GENERATE, "api_key_env": CHAT}  # options that only one API has
NEEDED = {GENERATE: "tokenizer", CHAT: "model"}


model_options = together(
    click.option(
        "--engine",
        required=True,
        type=HTTP_URL,
        help=f"SGLang server or router; for {CHAT} a base URL, usually .../v1",
    ),
    click.option(
        "--api",
        type=click.Choice([GENERATE, CHAT]),
        default=GENERATE,
        help=f"API of the server: SGLang's with tokens, or OpenAI's with messages (default {GENERATE})",
    ),
    click.option("--tokenizer", type=PATH, help=f"tokenizer folder of the served model, for {GENERATE}"),
    click.option(
        "--model",
        metavar="NAME",
        help=f"model name at the server; needed for {CHAT}; for {GENERATE} checked against the server",
    ),
    click.option("--api-key-env", metavar="VARIABLE", help=f"environment variable that holds the API key, for {CHAT}"),
)


def check_model_options(options: Options) -> None:
    """Raises UsageError for conflicting or missing options."""
    for name, api in ONLY_OF.items():
        option, given = f"--{name.replace('_', '-')}", getattr(options, name) is not None
        if given and api != options.api:
            raise click.UsageError(f"{option} needs --api {api}, but --api is {options.api}; remove {option}")
    if getattr(options, NEEDED[options.api]) is None:
        raise click.UsageError(f"--api {options.api} needs --{NEEDED[options.api]}")


def model_name(options: Options) -> str:
    """Name of the model in results, unless --model-name gives one."""
    return str(options.model or options.tokenizer.resolve().name)


@asynccontextmanager
async def chosen_agent(options: Options, prompts: str | None) -> AsyncIterator[Agent]:
    """The agent of the options, connected to its engine; `prompts` as in `open_agent`.

    Raises UsageError, PromptError, TokenizerError, EndpointError, and what `open_chat_agent` raises.
    """
    check_model_options(options)
    spec = agent_spec(options)
    sampling = {"top_p": options.top_p, "top_k": options.top_k}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        if options.api == CHAT:
            key = _api_key(options.api_key_env)
            proxy = await environment_proxy(options.engine)
            server = ChatCompletions(options.engine, http, model=options.model, api_key=key, proxy=proxy, **sampling)
            opened = open_chat_agent(spec, server, prompts, temperature=options.temperature)
        else:
            tokenizer = HFTokenizer(options.tokenizer, tools=agent_protocol(spec).tools)
            await check_served(options.engine, http, model=options.model, tokenizer=options.tokenizer)
            engine = SGLangEngine(options.engine, http, **sampling)
            opened = open_agent(spec, engine, tokenizer, prompts)
        async with opened as agent:
            yield agent


def _api_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise click.UsageError(f"--api-key-env {variable}: the variable is not set or empty; export it")
    return key
