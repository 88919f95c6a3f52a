"""Options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from swerl_api import AgentSpec, ContextPolicy, ObservationSpec
from swerl_api.agent import ProtocolName
from swerl_kube import KubeClient

from swerl_agent.episode import PROTOCOLS, PromptError
from swerl_agent.episode.configured import read_prompts
from swerl_agent.evaluation import AGENTS, BUILTIN, MINI_SWE_AGENT

from .values import checked, fraction, json_object, natural, positive

PROTOCOL: Mapping[str, ProtocolName] = {
    BUILTIN: "mini-swe-agent-1",
    MINI_SWE_AGENT: "mini-swe-agent-2-tools",
}  # the defaults


def add_agent_options(
    parser: argparse.ArgumentParser,
    *,
    agents: Sequence[str] = AGENTS,
    spec: AgentSpec | None = None,
) -> None:
    """Options of the agent; `spec` holds their defaults."""
    spec = spec or AgentSpec()
    parser.add_argument("--agent", choices=agents, default=BUILTIN, help=f"default: {BUILTIN}")
    parser.add_argument("--prompts", type=Path, help="YAML in the agent's format (default: the agent's own prompts)")
    parser.add_argument(
        "--protocol",
        choices=list(PROTOCOLS),
        help=f"format of commands in answers; default: {', '.join(f'{PROTOCOL[agent]} ({agent})' for agent in agents)}",
    )
    parser.add_argument(
        "--model-kwargs",
        type=json_object,
        metavar="JSON",
        help='more of each request of the builtin agent, as \'{"chat_template_kwargs": {"enable_thinking": false}}\'',
    )
    parser.add_argument("--temperature", type=float, default=0.0)
    _add_limit(parser, "--step-limit", spec.step_limit, "turns")
    _add_limit(parser, "--step-timeout", spec.command_timeout_seconds, "seconds per command")
    _add_limit(parser, "--episode-timeout", spec.episode_timeout_seconds, "seconds per episode")
    _add_limit(parser, "--context-tokens", spec.context_tokens, "tokens of prompt and answer")
    parser.add_argument(
        "--context-policy",
        choices=get_args(ContextPolicy),
        default=spec.context_policy,
        help="builtin agent with a full context window: omit turns, or stop with context_overflow (default omit)",
    )
    _add_limit(parser, "--max-tokens", spec.max_tokens_per_turn, "maximum tokens per answer")
    _add_observation_options(parser, spec)
    parser.add_argument(
        "--format-error-limit",
        type=natural,
        metavar="N",
        help="maximum consecutive answers without a command; 0: no limit",
    )
    parser.add_argument(
        "--repeat-limit",
        type=natural,
        default=spec.repeat_limit,
        metavar="N",
        help="maximum consecutive repeats of a command; 0: no limit",
    )


def _add_observation_options(parser: argparse.ArgumentParser, spec: AgentSpec) -> None:
    """How the builtin agent shortens long conversations and outputs."""
    parser.add_argument(
        "--head-ratio",
        type=fraction,
        default=spec.head_ratio,
        metavar="R",
        help=f"fraction of the window for the first turns if turns are omitted (default {spec.head_ratio})",
    )
    cut = spec.observation
    _add_limit(parser, "--observation-max-chars", cut.max_chars, "maximum characters of a command output")
    _add_limit(
        parser,
        "--observation-head-chars",
        cut.head_chars,
        "characters kept from its start",
        zero=True,
    )
    _add_limit(parser, "--observation-tail-chars", cut.tail_chars, "characters kept from its end", zero=True)


def _add_limit(parser: argparse.ArgumentParser, name: str, default: int, what: str, *, zero: bool = False) -> None:
    kind = natural if zero else positive
    parser.add_argument(name, type=kind, default=default, metavar="N", help=f"{what} (default {default})")


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Limits on the tokens that the model samples from."""
    parser.add_argument("--top-p", type=float, default=1.0, help="probability mass to sample from (default 1: all)")
    parser.add_argument("--top-k", type=int, default=0, help="most likely tokens to sample from (default 0: all)")


def agent_spec(options: argparse.Namespace) -> AgentSpec:
    """The agent that the options describe.

    Raises PromptError for options that the agent does not support, ArgumentTypeError for invalid or conflicting values.
    """
    spec = checked(
        AgentSpec,
        kind=options.agent,
        protocol=options.protocol or PROTOCOL[options.agent],
        format_error_limit=options.format_error_limit,
        repeat_limit=options.repeat_limit,
        step_limit=options.step_limit,
        command_timeout_seconds=options.step_timeout,
        episode_timeout_seconds=options.episode_timeout,
        context_tokens=options.context_tokens,
        context_policy=options.context_policy,
        max_tokens_per_turn=options.max_tokens,
        observation=_observation(options),
        head_ratio=options.head_ratio,
        model_kwargs=options.model_kwargs,
    )
    if spec.kind == MINI_SWE_AGENT:
        _check_mini_swe_agent(spec)
    return spec


def _check_mini_swe_agent(spec: AgentSpec) -> None:
    """Raises PromptError for options that mini-swe-agent does not support."""
    builtin = AgentSpec()
    if not spec.protocol.startswith("mini-swe-agent-2"):
        raise PromptError(
            f"mini-swe-agent does not support protocol {spec.protocol}; use mini-swe-agent-2 or mini-swe-agent-2-tools"
        )
    if spec.repeat_limit:
        raise PromptError("--repeat-limit needs --agent builtin; mini-swe-agent has no such limit")
    if spec.context_policy != builtin.context_policy:
        raise PromptError("--context-policy needs --agent builtin; mini-swe-agent always stops at a full window")
    if spec.head_ratio != builtin.head_ratio:
        raise PromptError("--head-ratio needs --agent builtin; mini-swe-agent omits no turns")
    if spec.observation != builtin.observation:
        raise PromptError(
            "--observation-... needs --agent builtin; --prompts configures mini-swe-agent's output limits"
        )


def _observation(options: argparse.Namespace) -> ObservationSpec:
    most, head, tail = (getattr(options, f"observation_{part}_chars") for part in ("max", "head", "tail"))
    if head + tail > most:
        raise argparse.ArgumentTypeError(
            "--observation-head-chars and --observation-tail-chars together must not exceed --observation-max-chars:"
            f" {head} + {tail} > {most}"
        )
    return ObservationSpec(max_chars=most, head_chars=head, tail_chars=tail)


def prompts_text(options: argparse.Namespace) -> str | None:
    """Content of the file of --prompts; None without the option. Raises PromptError."""
    return read_prompts(options.prompts, "--prompts") if options.prompts else None


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Options that choose the cluster and namespace."""
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, the Pod's service account, ~/.kube/config")
    parser.add_argument("--context", help="context of the kubeconfig; default: its current-context")
    parser.add_argument("--namespace", "-n", help="default: the context's")


def open_client(options: argparse.Namespace) -> KubeClient:
    """Client of the chosen cluster; use it with `async with`."""
    return KubeClient.from_environment(options.kubeconfig)
