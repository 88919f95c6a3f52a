"""The commands of trajectory files: of this project, and of mini-swe-agent (1.x fenced blocks, 2.x tool calls)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("traj.json", "*.traj.json", "*.traj")
_FENCE = re.compile(r"```(?:bash|sh|mswea_bash_command)?[^\S\n]*\n(.*?)\n?```", re.DOTALL)


class TrajectoryError(ValueError):
    """A file that is no trajectory; the message names it and what is wrong."""


@dataclass(frozen=True)
class Trajectory:
    """What was executed in one episode."""

    path: Path
    instance_id: str
    status: str  # of its verdict, '' when it was not graded
    commands: tuple[str, ...]


def read_trajectories(paths: Sequence[Path]) -> Iterator[Trajectory]:
    """Every trajectory at `paths`: files, or folders searched for traj.json and *.traj.json; raises TrajectoryError."""
    for path in paths:
        files = sorted({file for name in NAMES for file in path.rglob(name)}) if path.is_dir() else [path]
        if not files:
            raise TrajectoryError(f"{path} holds no traj.json")
        yield from map(read_trajectory, files)


def read_trajectory(path: Path) -> Trajectory:
    """The trajectory of one file; raises TrajectoryError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrajectoryError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("messages"), list):
        raise TrajectoryError(f"{path} is no trajectory: it has no list of messages")
    info: dict[str, Any] = content["info"] if isinstance(content.get("info"), dict) else {}
    verdict = info.get("verdict") or {}
    name = str(info.get("instance_id") or content.get("instance_id") or path.parent.name)
    return Trajectory(path, name, str(verdict.get("status") or ""), tuple(_commands(content)))


def executed(steps: Sequence[Any]) -> Iterator[str]:
    """The commands of recorded steps."""
    yield from (str(step.get("command") or step.get("action") or "") for step in steps if isinstance(step, dict))


def _commands(content: Mapping[str, Any]) -> Iterator[str]:
    """What was run: the recorded steps where there are any, else what the assistant's messages ask for."""
    steps = content.get("step_debug")
    if isinstance(steps, list) and steps:
        yield from executed(steps)
        return
    for message in content["messages"]:
        if isinstance(message, dict) and message.get("role") == "assistant":
            yield from _asked(message)


def _asked(message: Mapping[str, Any]) -> Iterator[str]:
    for call in message.get("tool_calls") or []:
        arguments = (call.get("function") or {}).get("arguments")
        try:
            given = json.loads(arguments) if isinstance(arguments, str) else arguments or {}
        except ValueError:
            yield str(arguments)
            continue
        yield str(given.get("command") or given) if isinstance(given, dict) else str(given)
    yield from _FENCE.findall(_text(message.get("content")))


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")
