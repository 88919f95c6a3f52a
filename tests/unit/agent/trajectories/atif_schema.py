"""What harbor 0.26 accepts as ATIF 1.7 (harbor.models.trajectories), as checks of a document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
FIELDS = {
    "trajectory": {
        "schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
        "continued_trajectory_ref", "extra", "subagent_trajectories",
    },
    "agent": {"name", "version", "model_name", "tool_definitions", "extra"},
    "step": AGENT_ONLY
    | {"step_id", "timestamp", "source", "message", "observation", "is_copied_context", "llm_call_count", "extra"},
    "tool_call": {"tool_call_id", "function_name", "arguments", "extra"},
    "result": {"source_call_id", "content", "subagent_trajectory_ref", "extra"},
    "metrics": {
        "prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "prompt_token_ids", "completion_token_ids",
        "logprobs", "extra",
    },
    "final_metrics": {
        "total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd", "total_steps",
        "extra",
    },
}  # fmt: skip
REQUIRED = {
    "trajectory": {"agent", "steps"},
    "agent": {"name", "version"},
    "step": {"step_id", "source", "message"},
    "tool_call": {"tool_call_id", "function_name", "arguments"},
}


def atif_faults(document: Mapping[str, Any]) -> list[str]:
    """What harbor would refuse."""
    faults = _fields("trajectory", document) + _fields("agent", document["agent"])
    faults += _fields("final_metrics", document.get("final_metrics", {}))
    if document["schema_version"] != "ATIF-v1.7" or not document["steps"]:
        faults.append("version or steps")
    for place, step in enumerate(document["steps"], 1):
        faults += [f"step {place}: {fault}" for fault in _step(place, step)]
    return faults


def _fields(kind: str, value: Mapping[str, Any]) -> list[str]:
    unknown, missing = set(value) - FIELDS[kind], REQUIRED.get(kind, set()) - set(value)
    nulls = {name for name, each in value.items() if each is None}
    return [f"{kind}: {sorted(names)}" for names in (unknown, missing, nulls) if names]


def _step(place: int, step: Mapping[str, Any]) -> list[str]:
    faults = _fields("step", step)
    if step["step_id"] != place or step["source"] not in ("system", "user", "agent"):
        faults.append("id or source")
    if step["source"] != "agent" and AGENT_ONLY & set(step):
        faults.append("fields of an agent")
    if "timestamp" in step:
        datetime.fromisoformat(step["timestamp"])
    calls = step.get("tool_calls", [])
    for call in calls:
        faults += _fields("tool_call", call)
    for result in step.get("observation", {}).get("results", []):
        faults += _fields("result", result)
        if result.get("source_call_id") not in {None, *(call["tool_call_id"] for call in calls)}:
            faults.append("a result of no call")
    return faults + _fields("metrics", step.get("metrics", {}))
