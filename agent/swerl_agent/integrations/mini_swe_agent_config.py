"""What of a mini-swe-agent configuration an episode uses. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from minisweagent.agents.default import AgentConfig
from minisweagent.models.litellm_model import LitellmModelConfig

OVERRIDDEN = {  # keys that the episode sets: its limits, its endpoint, its temperature
    *("agent.step_limit", "agent.cost_limit", "agent.wall_time_limit_seconds", "agent.max_consecutive_format_errors"),
    *("agent.output_path", "model.model_name", "model.cost_tracking", "model.set_cache_control"),
}
USED = {
    *(f"agent.{name}" for name in AgentConfig.model_fields),
    *(f"model.{name}" for name in LitellmModelConfig.model_fields),
    *("environment.env", "run.env_startup_command"),
} - OVERRIDDEN
SECTIONS = ("agent", "model", "environment", "run")


def unused_keys(config: Mapping[str, Any]) -> Iterator[str]:
    """Keys of `config` without effect, as section.key."""
    for section, content in config.items():
        if section not in SECTIONS or not isinstance(content, Mapping):
            yield section
            continue
        yield from (f"{section}.{name}" for name in content if f"{section}.{name}" not in USED)
    model = config.get("model") or {}
    if "temperature" in (model.get("model_kwargs") or {}):
        yield "model.model_kwargs.temperature"
