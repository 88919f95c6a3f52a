"""What the formats of other viewers have in common: fields of an episode, of its turns and of its commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .fields import integer, listed, number, text
from .portable import given
from .stored import StoredEpisode
from .trajectory import Command, Turn

TOOL = "bash"  # the only tool of an agent here
UNKNOWN = "unknown"
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def agent_name(info: Mapping[str, Any]) -> str:
    """The agent of an episode."""
    return text(info.get("agent_name")) or UNKNOWN


def agent_version(info: Mapping[str, Any]) -> str:
    """The version in the artifacts, else that of this distribution for the agent that is part of it."""
    if found := text(info.get("agent_version")):
        return found
    try:
        return version("swe-rl") if agent_name(info) == "builtin" else UNKNOWN
    except PackageNotFoundError:  # a source tree
        return UNKNOWN


def call_id(turn: Turn, command: Command) -> str:
    """The id of a command's tool call."""
    return f"call_{turn.number}_{command.number}"


def command_fields(command: Command) -> dict[str, Any]:
    """What the artifacts say about a command besides its output."""
    return given(
        exit_code=command.exit_code,
        seconds=command.seconds,
        timed_out=command.timed_out or None,
        output_characters=command.output_bytes,
        hidden_bytes=command.hidden_bytes or None,
    )


def reasoning_of(turn: Turn) -> str:
    """The thoughts of an answer."""
    return "\n\n".join(part.text for part in turn.parts if part.kind == "thought")


def answer_text(turn: Turn) -> str:
    """The answer as the model gave it, without its thoughts."""
    return _THOUGHT.sub("", turn.content).strip() if "<think>" in turn.content else turn.content


def turn_fields(turn: Turn) -> dict[str, Any]:
    """What the artifacts say about a turn: judge score, audit findings, and where its context was cut."""
    cut = turn.cut
    return given(
        judge=dict(turn.score) if turn.score else None,
        audit=[dict(each) for each in turn.findings] or None,
        context_cut=given(segment=cut.sequence - 1, omitted_turns=cut.omitted) if cut else None,
    )


def token_fields(turn: Turn, segments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where an answer's tokens are, and the weights that sampled them."""
    if turn.tokens is None:
        return {}
    place, first, end = turn.tokens
    versions = [listed(each) for each in listed(segments[place].get("weight_versions"))]
    sampled = [each for each in versions if len(each) == 3 and first <= (integer(each[1]) or 0) < end]
    return {"segment": place, "first_token": first, "end_token": end, "weight_versions": sampled}


def rewards(episode: StoredEpisode) -> dict[str, float]:
    """Reward and outcome, where the episode says something about the model."""
    if episode.resolved is None:
        return {}
    return given(resolved=float(episode.resolved), reward=number(episode.info.get("reward")))
