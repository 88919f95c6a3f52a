"""Trajectories in ATIF, harbor's exchange format (Agent Trajectory Interchange Format, harbor RFC 0001).

Guarantees: every stored episode gives a valid document of version 1.7. An answer's token ids and log-probs are those
that were sampled; with `extra.segments`, the ids that it read are `segments[n].tokens[:first_token]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .fields import integer, listed, mapping, number
from .portable import given, iso_time, portable
from .stored import StoredEpisode
from .trajectory import Turn
from .viewer_fields import (
    TOOL,
    agent_name,
    agent_version,
    answer_text,
    call_id,
    command_fields,
    reasoning_of,
    token_fields,
    turn_fields,
)

SCHEMA = "ATIF-v1.7"  # the lowest version that has every field below


def atif(episode: StoredEpisode) -> dict[str, Any]:
    """The document of an episode."""
    trajectory, info = episode.trajectory, episode.info
    steps = [_message(role, content) for _, role, content in trajectory.opening]
    steps += [_answer(turn, trajectory.segments, agent_name(info)) for turn in trajectory.turns]
    steps = steps or [{"source": "system", "message": "The episode ended before its first message."}]
    document = given(
        schema_version=SCHEMA,
        session_id=episode.folder.name,
        trajectory_id=episode.folder.name,
        agent=given(name=agent_name(info), version=agent_version(info), model_name=episode.model or None),
        steps=[{"step_id": place, **step} for place, step in enumerate(steps, 1)],
        final_metrics=_final_metrics(info, len(steps)),
        extra={
            **{name: value for name, value in info.items() if name != "eval_result"},
            "patch": episode.patch or None,
            "segments": list(trajectory.segments),
        },
    )
    found = portable(document)
    assert isinstance(found, dict)
    return found


def _message(role: str, content: str) -> dict[str, Any]:
    source = role if role in ("system", "user") else "system" if role == "developer" else "user"
    return {"source": source, "message": content, **({} if source == role else {"extra": {"role": role}})}


def _answer(turn: Turn, segments: Sequence[Mapping[str, Any]], agent: str) -> dict[str, Any]:
    results = [
        given(
            source_call_id=call_id(turn, command) if command else None,
            content=content,
            extra=given(role=role, **(command_fields(command) if command else {})),
        )
        for command, role, content in turn.results()
    ]
    calls = [
        {
            "tool_call_id": call_id(turn, command),
            "function_name": TOOL,
            "arguments": {"command": command.action},
            "extra": command_fields(command),
        }
        for command in turn.commands
    ]
    return given(
        source="agent",
        timestamp=iso_time(turn.commands[0].started) if turn.commands else None,
        message=answer_text(turn),
        reasoning_content=reasoning_of(turn) or None,
        tool_calls=calls or None,
        observation={"results": results} if results else None,
        metrics=_metrics(turn, segments),
        llm_call_count=1,
        extra=turn_fields(turn) or None,
    )


def _metrics(turn: Turn, segments: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if turn.tokens is None:
        return None
    place, first, end = turn.tokens
    ids, logprobs = (listed(segments[place].get(name))[first:end] for name in ("tokens", "logprobs"))
    known = bool(ids) and all(type(each) is int for each in ids)
    found = [number(each) for each in logprobs]
    return given(
        prompt_tokens=first,
        completion_tokens=end - first,
        completion_token_ids=ids if known else None,
        logprobs=found if known and len(found) == len(ids) and None not in found else None,
        extra=token_fields(turn, segments),
    )


def _final_metrics(info: Mapping[str, Any], steps: int) -> dict[str, Any]:
    usage = mapping(info.get("usage"))
    return given(
        total_prompt_tokens=integer(usage.get("prompt_tokens")),
        total_completion_tokens=integer(usage.get("completion_tokens")),
        total_cached_tokens=integer(usage.get("cached_tokens")),
        total_cost_usd=number(usage.get("cost_usd")),
        total_steps=steps,
        extra=given(usage=dict(usage) or None, timings=info.get("timings"), reward=number(info.get("reward"))),
    )
