"""An episode as a sample of an Inspect log (inspect_ai's EvalSample)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swerl_agent.storage import file_name

from .fields import integer, mapping, number, text
from .portable import given, iso_time, portable
from .stored import StoredEpisode
from .trajectory import Command, Trajectory, Turn
from .viewer_fields import (
    TOOL,
    UNKNOWN,
    answer_text,
    call_id,
    command_fields,
    reasoning_of,
    rewards,
    token_fields,
    turn_fields,
)

LIMITS = {  # exit statuses, as Inspect's limits
    "max_steps": "turn",
    "context_overflow": "context",
    "prompt_too_long": "context",
    "episode_timeout": "time",
}
SHORT = 1_000  # characters of a text in a summary


def inspect_sample(episode: StoredEpisode, epoch: int) -> dict[str, Any]:
    """The sample of an episode: its conversation, scores, error and metadata; token sequences are in its store."""
    trajectory, info = episode.trajectory, episode.info
    messages = _messages(trajectory, episode.model or UNKNOWN)
    answers = [message for message in messages if message["role"] == "assistant"]
    usage = _usage(info)
    found = given(
        id=sample_id(episode),
        epoch=epoch,
        input=_input(trajectory) or episode.task,
        target="",
        messages=messages,
        output=given(
            model=episode.model or UNKNOWN,
            choices=[{"message": answers[-1], "stop_reason": "stop"}] if answers else [],
            usage=usage,
        ),
        scores=_scores(episode) or None,
        metadata={
            **{name: value for name, value in info.items() if name != "eval_result"},
            "patch": episode.patch or None,
        },
        store={"segments": list(trajectory.segments)} if trajectory.segments else {},
        model_usage={episode.model or UNKNOWN: usage} if usage else {},
        started_at=iso_time(episode.ended - (episode.seconds or 0.0)),
        completed_at=iso_time(episode.ended),
        total_time=episode.seconds,
        working_time=episode.seconds,
        uuid=episode.folder.name,
        error=_error(info),
        limit=_limit(info, len(trajectory.turns)),
        turn_count=len(trajectory.turns),
    )
    sample = portable(found)
    assert isinstance(sample, dict)
    return sample


def sample_id(episode: StoredEpisode) -> str:
    """The id of the task; characters that no file name has become _."""
    return file_name(episode.task)[:150]


def summary_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sample as lists of samples show it (inspect_ai's EvalSampleSummary)."""
    copied = ("id", "epoch", "target", "model_usage", "started_at", "completed_at", "total_time", "working_time")
    metadata = {name: each for name, each in sample["metadata"].items() if isinstance(each, str | int | float)}
    scores = {name: {"value": score["value"]} for name, score in sample.get("scores", {}).items()}
    return given(
        **{name: sample.get(name) for name in (*copied, "uuid", "turn_count")},
        input=sample["input"][:SHORT],
        metadata={name: each[:SHORT] if isinstance(each, str) else each for name, each in metadata.items()},
        scores=scores or None,
        error=sample["error"]["message"][:SHORT] if "error" in sample else None,
        limit=sample["limit"]["type"] if "limit" in sample else None,
        completed=True,
        message_count=len(sample["messages"]),
    )


def _messages(trajectory: Trajectory, model: str) -> list[dict[str, Any]]:
    roles = {"system": "system", "developer": "system"}
    found = [
        {"id": f"m{place}", "role": roles.get(role, "user"), "content": content, "source": "input"}
        for place, role, content in trajectory.opening
    ]
    for turn in trajectory.turns:
        found.append(_answer(turn, trajectory, model))
        found += [_result(turn, place, *result) for place, result in enumerate(turn.results())]
    return found


def _answer(turn: Turn, trajectory: Trajectory, model: str) -> dict[str, Any]:
    thoughts, said = reasoning_of(turn), answer_text(turn)
    calls = [
        {
            "id": call_id(turn, command),
            "function": TOOL,
            "arguments": {"command": command.action},
            "type": "function",
        }
        for command in turn.commands
    ]
    content = [{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": said}] if thoughts else said
    metadata = {**turn_fields(turn), **token_fields(turn, trajectory.segments)}
    return given(
        id=f"m{turn.message}",
        role="assistant",
        content=content,
        source="generate",
        model=model,
        tool_calls=calls or None,
        metadata=metadata or None,
    )


def _result(turn: Turn, place: int, command: Command | None, role: str, content: str) -> dict[str, Any]:
    """What the model saw next; `metadata.role` is the role that it had."""
    name = f"m{turn.message}r{place}"
    if command is None:
        return {"id": name, "role": "user", "content": content, "metadata": {"role": role}}
    metadata = {"role": role, **command_fields(command)}
    return given(
        id=name,
        role="tool",
        content=content,
        tool_call_id=call_id(turn, command),
        function=TOOL,
        error={"type": "timeout", "message": "The command was stopped at its time limit."}
        if command.timed_out
        else None,
        metadata=metadata,
    )


def _input(trajectory: Trajectory) -> str:
    return next((content for _, role, content in reversed(trajectory.opening) if role == "user"), "")


def _usage(info: Mapping[str, Any]) -> dict[str, Any] | None:
    usage = mapping(info.get("usage"))
    read, cached, wrote = (integer(usage.get(f"{name}_tokens")) for name in ("prompt", "cached", "completion"))
    if read is None and wrote is None:
        return None
    return given(
        input_tokens=max(0, (read or 0) - (cached or 0)),
        output_tokens=wrote or 0,
        total_tokens=(read or 0) + (wrote or 0),
        input_tokens_cache_read=cached,
        total_cost=number(usage.get("cost_usd")),
    )


def _scores(episode: StoredEpisode) -> dict[str, Any]:
    verdict = mapping(episode.info.get("verdict"))
    explanation = text(verdict.get("detail")) or text(episode.info.get("error")) or None
    return {
        name: given(value=value, explanation=explanation, metadata=dict(verdict) if name == "resolved" else None)
        for name, value in rewards(episode).items()
    }


def _error(info: Mapping[str, Any]) -> dict[str, str] | None:
    if not (info.get("infrastructure_error") or info.get("interrupted")):
        return None
    code, message = text(info.get("error_code")), text(info.get("error"))
    said = f"{code}: {message}" if code and message else code or message or text(info.get("exit_status"))
    return {"message": said, "traceback": "", "traceback_ansi": ""}


def _limit(info: Mapping[str, Any], turns: int) -> dict[str, Any] | None:
    kind = LIMITS.get(text(info.get("exit_status")))
    if kind is None:
        return None
    limit = {"turn": integer(info.get("step_limit")) or turns, "context": 0.0}.get(kind)
    if limit is None:
        limit = number(mapping(info.get("timings")).get("total")) or 0.0
    return {"type": kind, "limit": limit, "reason": text(info.get("exit_status"))}
