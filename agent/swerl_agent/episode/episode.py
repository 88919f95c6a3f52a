"""The noun `Episode`, and the limits one runs under."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from swerl_api import Agent

from .prompts import Cut


@dataclass(frozen=True)
class AgentLimits:
    """Limits of one episode; times in seconds, lengths in tokens."""

    step_limit: int = 20
    command_timeout: float = 180
    episode_timeout: float = 1800
    context_tokens: int = 16_384
    max_tokens_per_turn: int = 4_096
    cut: Cut = field(default_factory=Cut)
    workdir: str = "/testbed"

    @classmethod
    def of(cls, agent: Agent, *, workdir: str = "/testbed") -> AgentLimits:
        """The limits of a job's `agent` section."""
        observation = agent.observation
        return cls(
            step_limit=agent.step_limit,
            command_timeout=agent.command_timeout_seconds,
            episode_timeout=agent.episode_timeout_seconds,
            context_tokens=agent.context_tokens,
            max_tokens_per_turn=agent.max_tokens_per_turn,
            cut=Cut(observation.max_chars, observation.head_chars, observation.tail_chars),
            workdir=workdir,
        )


@dataclass
class Episode:
    """Everything one attempt did.

    `tokens`, `loss_mask` and `logprobs` have one entry per token, the first `prompt_length` of which are the prompt.
    `exit_status`: submitted | max_steps | context_overflow | episode_timeout | infrastructure_error | cancelled |
    error.
    """

    instance_id: str
    group: str
    index: int
    tokens: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_length: int = 0
    weight_versions: list[tuple[str, int, int]] = field(default_factory=list)  # (version, first token, end)
    messages: list[dict[str, str]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    patch: str | None = None  # undecodable bytes as surrogate escapes
    patch_source: str | None = None  # submission | git_diff_fallback
    exit_status: str = "error"
    error: str | None = None
    infrastructure_error: bool = False
    timings: dict[str, float] = field(default_factory=dict)  # seconds by phase: total, model, environment, diff
