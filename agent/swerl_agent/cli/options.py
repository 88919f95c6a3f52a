"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import click
from swerl_api import AgentSpec, ContextPolicy, ObservationSpec, SampleSpec
from swerl_api.agent import ProtocolName
from swerl_kube import KubeClient

from swerl_agent.episode import PROTOCOLS, PromptError
from swerl_agent.episode.configured import read_prompts
from swerl_agent.evaluation import AGENTS, BUILTIN, MINI_SWE_AGENT

from .command import Decorator, Options, together
from .values import FRACTION, JSON_OBJECT, NATURAL, NON_NEGATIVE, PATH, POSITIVE, Checked, checked

PROTOCOL: Mapping[str, ProtocolName] = {
    BUILTIN: "mini-swe-agent-1",
    MINI_SWE_AGENT: "mini-swe-agent-2-tools",
}  # the defaults
SAMPLING = SampleSpec()


def agent_options(*, agents: Sequence[str] = AGENTS, spec: AgentSpec | None = None) -> Decorator:
    """Options of the agent; `spec` holds their defaults."""
    spec = spec or AgentSpec()
    protocols = ", ".join(f"{PROTOCOL[agent]} ({agent})" for agent in agents)
    return together(
        click.option("--agent", type=click.Choice(agents), default=BUILTIN, help=f"default: {BUILTIN}"),
        click.option("--prompts", type=PATH, help="YAML in the agent's format (default: the agent's own prompts)"),
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            help=f"format of commands in answers; default: {protocols}",
        ),
        click.option(
            "--model-kwargs",
            type=JSON_OBJECT,
            help='added to each request of the builtin agent: {"chat_template_kwargs": {"enable_thinking": false}}',
        ),
        _number("--temperature", SAMPLING.temperature, "sampling temperature; 0: greedy", NON_NEGATIVE),
        _number("--step-limit", spec.step_limit, "turns"),
        _number("--step-timeout", spec.command_timeout_seconds, "seconds per command"),
        _number("--episode-timeout", spec.episode_timeout_seconds, "seconds per episode"),
        _number("--context-tokens", spec.context_tokens, "tokens of prompt and answer"),
        click.option(
            "--context-policy",
            type=click.Choice(get_args(ContextPolicy)),
            default=spec.context_policy,
            help="builtin agent with a full context window: omit turns, or stop with context_overflow"
            f" (default {spec.context_policy})",
        ),
        _number("--max-tokens", spec.max_tokens_per_turn, "maximum tokens per answer"),
        _observation_options(spec),
        click.option(
            "--format-error-limit", type=NATURAL, help="maximum consecutive answers without a command; 0: no limit"
        ),
        click.option(
            "--repeat-limit",
            type=NATURAL,
            default=spec.repeat_limit,
            help="maximum consecutive repeats of a command; 0: no limit",
        ),
    )


def _observation_options(spec: AgentSpec) -> Decorator:
    """How the builtin agent shortens long conversations and outputs."""
    cut = spec.observation
    return together(
        click.option(
            "--head-ratio",
            type=FRACTION,
            default=spec.head_ratio,
            help=f"fraction of the window for the first turns if turns are omitted (default {spec.head_ratio})",
        ),
        _number("--observation-max-chars", cut.max_chars, "maximum characters of a command output"),
        _number("--observation-head-chars", cut.head_chars, "characters kept from its start", NATURAL),
        _number("--observation-tail-chars", cut.tail_chars, "characters kept from its end", NATURAL),
    )


def _number(name: str, default: float, what: str, kind: Checked = POSITIVE) -> Decorator:
    text = str(default).removesuffix(".0")
    return click.option(name, type=kind, default=default, help=f"{what} (default {text})")


sampling_options = together(
    _number("--top-p", SAMPLING.top_p, "probability mass to sample from; 1: all", FRACTION),
    _number("--top-k", SAMPLING.top_k, "most likely tokens to sample from; 0: all", NATURAL),
)
cluster_options = together(
    click.option("--kubeconfig", help="default: $KUBECONFIG, the Pod's service account, ~/.kube/config"),
    click.option("--context", help="context of the kubeconfig; default: its current-context"),
    click.option("--namespace", "-n", help="default: the context's"),
)


def agent_spec(options: Options) -> AgentSpec:
    """The agent that the options describe.

    Raises PromptError for options that the agent does not support, UsageError for invalid or conflicting values.
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


def _observation(options: Options) -> ObservationSpec:
    most, head, tail = (getattr(options, f"observation_{part}_chars") for part in ("max", "head", "tail"))
    if head + tail > most:
        raise click.UsageError(
            "--observation-head-chars and --observation-tail-chars together must not exceed --observation-max-chars:"
            f" {head} + {tail} > {most}"
        )
    return ObservationSpec(max_chars=most, head_chars=head, tail_chars=tail)


def prompts_text(options: Options) -> str | None:
    """Content of the file of --prompts; None without the option. Raises PromptError."""
    return read_prompts(options.prompts, "--prompts") if options.prompts else None


def open_client(options: Options) -> KubeClient:
    """Client of the chosen cluster; use it with `async with`."""
    return KubeClient.from_environment(options.kubeconfig)
