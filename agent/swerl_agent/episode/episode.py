"""The noun `Episode`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .token_segment import TokenSegment

INFRASTRUCTURE_ERROR = "infrastructure_error"  # exit status of an episode that the policy did not end
SANDBOX_DESTROYED = "sandbox_destroyed"  # exit status of an episode whose own commands ended its sandbox
PROMPT_FAILED = "prompt_failed"  # exit status of an episode whose prompt or chat template does not render


@dataclass
class Episode:
    """All that one agent run at one task produced.

    `segments` hold its tokens: one while no turn is omitted from the context, and one more after each cut.
    `exit_status`: submitted | max_steps | context_overflow | prompt_too_long | episode_timeout |
    repeated_format_errors | repeated_command | sandbox_destroyed | prompt_failed | infrastructure_error | cancelled |
    error.
    """

    instance_id: str
    group: str
    index: int
    image: str = ""  # of its sandbox, as the node resolved it
    agent_name: str = ""  # builtin, mini-swe-agent, or the name of a custom agent
    segments: list[TokenSegment] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0  # answers of the model
    format_errors: int = 0  # answers without a command to run
    omitted_turns: int = 0  # turns omitted from the last answer's context
    commands: list[dict[str, Any]] = field(default_factory=list)  # their records; `step_idx` is their answer, from 0
    patch: str | None = None  # undecodable bytes as surrogate escapes
    patch_source: str | None = None  # submission | git_diff_fallback
    patch_left_out: list[str] = field(default_factory=list)  # changes that the patch lacks, and why
    exit_status: str = "error"
    error: str | None = None
    error_code: str = ""  # code of a SandboxError or EngineError, prompt_failed, internal or cancelled
    infrastructure_error: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: total, model, environment (commands), diff; exec: the part of environment spent on the way to
    the sandbox and back, without the commands' own time; baseline: beside the model's first answer."""
    usage: dict[str, float] = field(default_factory=dict)  # sums of its generations' `usage`

    @property
    def sampled_tokens(self) -> int:
        """Tokens the model sampled."""
        return sum(sum(segment.loss_mask) for segment in self.segments)
