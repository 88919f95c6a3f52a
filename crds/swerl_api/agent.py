"""Which agent acts in an episode, with which limits and prompts."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from .base import ApiModel, Fraction, KubernetesObject, Name, NonNegative, Positive, Rule, Seconds, Text

AgentKind = Literal["builtin", "mini-swe-agent"]
ContextPolicy = Literal["omit", "stop"]
ProtocolName = Literal["mini-swe-agent-1", "first-block", "mini-swe-agent-2", "mini-swe-agent-2-tools"]


class ConfigMapKey(ApiModel):
    """One key of a ConfigMap."""

    name: Name
    """ConfigMap in the job's namespace."""
    key: Text = Field(min_length=1)
    """Key inside it."""


class PromptTemplates(ApiModel):
    """Where the prompts are."""

    config_map: ConfigMapKey
    """YAML with jinja2 templates: agent.system_template, instance_template, format_error_template,
    action_observation_template, turn_reminder_template; for mini-swe-agent a configuration in its own format."""


class ObservationSpec(ApiModel):
    """How command output is cut before the model sees it, in characters."""

    max_chars: Positive = 10_000
    """Output of at least this many characters is cut."""
    head_chars: NonNegative = 5_000
    """Characters kept from the start of cut output."""
    tail_chars: NonNegative = 5_000
    """Characters kept from the end of cut output."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.headChars + self.tailChars <= self.maxChars",
            "observation.headChars + tailChars must not exceed maxChars",
            ".headChars",
        ),
    )


class AgentSpec(ApiModel):
    """Which agent acts in an episode, with which limits and prompts."""

    kind: AgentKind = "builtin"
    """builtin: the agent of this project; mini-swe-agent: the unmodified package of that name, answered by an endpoint
    that records the tokens."""
    prompt_templates: PromptTemplates | None = None
    """Custom prompts; absent means the built-in ones."""
    protocol: ProtocolName = "mini-swe-agent-1"
    """How the model names its command. mini-swe-agent-1: exactly one block fenced as bash; first-block: the first such
    block; mini-swe-agent-2: exactly one fenced as mswea_bash_command, at most three answers in a row without, and no
    submission by a command that fails; mini-swe-agent-2-tools: the same with calls of a tool `bash`, for models whose
    chat template has tools."""
    format_error_limit: NonNegative | None = None
    """Answers in a row without a command that end an episode; 0 means no limit, absent the protocol's own."""
    repeat_limit: NonNegative | None = None
    """Times in a row the same command may run; the last ends the episode. 0 means no limit, absent the protocol's. Only
    with kind builtin."""
    step_limit: Positive = 20
    """Maximum turns of one episode."""
    command_timeout_seconds: Seconds = 180
    """Seconds one command may run before its process group is killed and the partial output returned."""
    episode_timeout_seconds: Seconds = 1800
    """Seconds one episode may take, from its sandbox being ready to its end."""
    context_tokens: int = Field(default=16_384, ge=64)
    """Maximum tokens of prompt and answer together; contextPolicy decides what happens beyond it."""
    context_policy: ContextPolicy = "omit"
    """Policy for a conversation that leaves no room for an answer of maxTokensPerTurn. omit: leave out turns between
    the first and the last ones. stop: end the episode as context_overflow, so that it is one sequence of tokens. Only
    with kind builtin: mini-swe-agent ends when its window is full."""
    max_tokens_per_turn: int = Field(default=4_096, ge=1)
    """Maximum tokens of one answer."""
    observation: ObservationSpec = Field(default_factory=ObservationSpec)
    """Cutting of command output."""
    head_ratio: Fraction = 0.3
    """Share of the context budget for the first turns when turns are left out; the rest is for the last ones."""
    model_kwargs: KubernetesObject | None = None
    """Further fields of the model's requests, under the names of mini-swe-agent's model_kwargs. With engines: top_p,
    top_k, min_p, and chat_template_kwargs, enable_thinking and reasoning_effort for the chat template. With a chat
    completions endpoint: any field that it takes. extra_body counts as its content. Temperature and maxTokensPerTurn
    have fields of their own. Of kind builtin alone: mini-swe-agent's are in its own configuration."""
    chat_template: Text | None = None
    """Path of a jinja2 chat template inside the trainer Pods; absent means the tokenizer's own."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.commandTimeoutSeconds <= self.episodeTimeoutSeconds",
            "agent.commandTimeoutSeconds must not exceed agent.episodeTimeoutSeconds",
            ".commandTimeoutSeconds",
        ),
        Rule(
            "self.maxTokensPerTurn < self.contextTokens",
            "agent.maxTokensPerTurn must be below agent.contextTokens",
            ".maxTokensPerTurn",
        ),
        Rule(
            "self.kind != 'mini-swe-agent' || self.protocol.startsWith('mini-swe-agent-2')",
            "agent.kind mini-swe-agent needs agent.protocol mini-swe-agent-2 or mini-swe-agent-2-tools",
            ".protocol",
        ),
        Rule(
            "self.kind != 'mini-swe-agent' || !has(self.repeatLimit) || self.repeatLimit == 0",
            "agent.repeatLimit applies only to agent.kind builtin; mini-swe-agent has no such limit",
            ".repeatLimit",
        ),
        Rule(
            "self.kind != 'mini-swe-agent' || self.contextPolicy == 'omit'",
            "agent.contextPolicy applies only to agent.kind builtin; mini-swe-agent always ends at a full window",
            ".contextPolicy",
        ),
    )
