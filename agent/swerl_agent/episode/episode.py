"""The noun `Episode`, and the limits one runs under."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from swerl_api import AgentSpec, ContextPolicy

from .context import Budget
from .prompts import Cut
from .protocol import MINI_1, PROTOCOLS, AgentProtocol
from .token_segment import TokenSegment

PROMPT_FAILED = "prompt_failed"  # how an episode ends whose prompt or chat template does not render


@dataclass(frozen=True)
class AgentLimits:
    """Limits of one episode; times in seconds, lengths in tokens."""

    step_limit: int = 20
    command_timeout: float = 180
    episode_timeout: float = 1800
    context_tokens: int = 16_384
    max_tokens_per_turn: int = 4_096
    head_ratio: float = 0.3
    context_policy: ContextPolicy = "omit"  # of the built-in loop
    cut: Cut = field(default_factory=Cut)
    protocol: AgentProtocol = MINI_1
    workdir: str = "/testbed"

    @property
    def budget(self) -> Budget:
        """How the context window is shared."""
        return Budget(self.context_tokens, self.max_tokens_per_turn, self.head_ratio, self.context_policy == "omit")

    @classmethod
    def of(cls, agent: AgentSpec, *, workdir: str = "/testbed") -> AgentLimits:
        """The limits of a job's `agent` section."""
        observation = agent.observation
        return cls(
            step_limit=agent.step_limit,
            command_timeout=agent.command_timeout_seconds,
            episode_timeout=agent.episode_timeout_seconds,
            context_tokens=agent.context_tokens,
            max_tokens_per_turn=agent.max_tokens_per_turn,
            head_ratio=agent.head_ratio,
            context_policy=agent.context_policy,
            cut=Cut(observation.max_chars, observation.head_chars, observation.tail_chars),
            protocol=PROTOCOLS[agent.protocol].with_limits(
                format_errors=agent.format_error_limit, repeats=agent.repeat_limit
            ),
            workdir=workdir,
        )


@dataclass
class Episode:
    """Everything one attempt did.

    `segments` hold its tokens: one as long as nothing was left out of the context, a further one from each cut on.
    `exit_status`: submitted | max_steps | context_overflow | prompt_too_long | episode_timeout |
    repeated_format_errors | repeated_command | prompt_failed | infrastructure_error | cancelled | error.
    """

    instance_id: str
    group: str
    index: int
    image: str = ""  # of its sandbox, as the node resolved it
    agent_name: str = ""  # who acted in it: builtin, mini-swe-agent, or what an agent of one's own is called
    segments: list[TokenSegment] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0  # answers of the model
    format_errors: int = 0  # of them without a command to run
    omitted_turns: int = 0  # turns left out of the last answer's context
    steps: list[dict[str, Any]] = field(default_factory=list)  # commands, by `step_idx`: their answer, from 0
    patch: str | None = None  # undecodable bytes as surrogate escapes
    patch_source: str | None = None  # submission | git_diff_fallback
    exit_status: str = "error"
    error: str | None = None
    error_code: str = ""  # of an error: the word of SandboxError or EngineError, prompt_failed, internal, or cancelled
    infrastructure_error: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: total, model, environment (commands), diff; exec: of environment, what was the way to the
    sandbox and back, not the commands' own time."""
    usage: dict[str, float] = field(default_factory=dict)  # sums of its generations' `usage`

    @property
    def sampled_tokens(self) -> int:
        """Tokens the model sampled."""
        return sum(sum(segment.loss_mask) for segment in self.segments)
