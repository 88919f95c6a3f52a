"""The commands of trajectory files: of this project, of SWE-agent, and of mini-swe-agent (1.x fenced blocks, 2.x tool
calls and items of the Responses API)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("traj.json", "*.traj.json", "*.traj")
STEPS = ("step_debug", "trajectory")  # lists of what was executed: this project's, SWE-agent's
MESSAGES = ("messages", "input", "output", "items")  # lists of messages
LISTS = (*STEPS, *MESSAGES)
CALLS = {  # items of the Responses API that call, and where their arguments are
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
}
_FENCE = re.compile(r"```(?:bash|sh|mswea_bash_command)?[^\S\n]*\n(.*?)\n?```", re.DOTALL)


class TrajectoryError(ValueError):
    """A file that is not a trajectory; the message names it and what is wrong."""


@dataclass(frozen=True)
class AuditedTrajectory:
    """What was executed in one episode."""

    path: Path
    instance_id: str
    status: str  # of its verdict, '' when it was not graded
    commands: tuple[str, ...]


def read_trajectories(paths: Sequence[Path]) -> Iterator[AuditedTrajectory | TrajectoryError]:
    """Every trajectory at `paths`: files, or folders searched for traj.json, *.traj.json and *.traj; the error of each
    file that is none."""
    for path in paths:
        for file in trajectory_files(path):
            try:
                yield read_trajectory(file)
            except TrajectoryError as error:
                yield error


def trajectory_files(path: Path, names: Sequence[str] = NAMES) -> list[Path]:
    """`path`, or the files of these names below it; a folder without one stands for itself, and cannot be read."""
    files = sorted({file for name in names for file in path.rglob(name)}) if path.is_dir() else []
    return files or [path]


def read_trajectory(path: Path) -> AuditedTrajectory:
    """The trajectory of one file; raises TrajectoryError."""
    content = trajectory_content(path)
    status = _object(_object(content.get("info")).get("verdict")).get("status")
    return AuditedTrajectory(path, instance_id(path, content), str(status or ""), tuple(_commands(content)))


def trajectory_content(path: Path) -> Mapping[str, Any]:
    """The object in a file, a list of messages as that of a trajectory; raises TrajectoryError."""
    if path.is_dir():
        raise TrajectoryError(f"{path} holds no traj.json, *.traj.json or *.traj")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TrajectoryError(f"{path} cannot be read: {error}") from error
    content = {"messages": content} if isinstance(content, list) and content else content
    if not isinstance(content, dict) or not any(isinstance(content.get(name), list) for name in LISTS):
        raise TrajectoryError(f"{path} is not a trajectory: it has no list of messages")
    return content


def instance_id(path: Path, content: Mapping[str, Any]) -> str:
    """The task's id in the content of a file, else in its name."""
    named = _object(content.get("info")).get("instance_id") or content.get("instance_id")
    return str(named or (path.parent.name if path.name == "traj.json" else path.name.partition(".traj")[0]))


def executed(steps: Sequence[Any]) -> Iterator[str]:
    """The commands of recorded steps."""
    yield from (str(step.get("command") or step.get("action") or "") for step in steps if isinstance(step, dict))


def _commands(content: Mapping[str, Any]) -> Iterator[str]:
    """What was run: the recorded steps where there are any, else what the assistant's messages ask for."""
    for name in STEPS:
        steps = content.get(name)
        if isinstance(steps, list) and steps:
            yield from executed(steps)
            return
    for name in MESSAGES:
        for message in content.get(name) or ():
            yield from asked(_object(message))


def asked(message: Mapping[str, Any]) -> Iterator[str]:
    """The commands that an answer asks for: a message, an item of the Responses API, or a whole response."""
    if (kind := str(message.get("type"))) in CALLS:
        yield _command(message.get(CALLS[kind]))
    for item in message["output"] if isinstance(message.get("output"), list) else ():
        yield from asked(_object(item))
    if message.get("role") != "assistant":
        return
    for call in message["tool_calls"] if isinstance(message.get("tool_calls"), list) else ():
        yield _command(_object(_object(call).get("function")).get("arguments"))
    for block in message["content"] if isinstance(message.get("content"), list) else ():
        if _object(block).get("type") == "tool_use":
            yield _command(block.get("input"))
    yield from _FENCE.findall(_text(message.get("content")))


def _command(arguments: Any) -> str:
    """The command in a call's arguments, all of them where none is called so."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return str(arguments)
    if isinstance(given, dict):
        given = given.get("command") or given.get("cmd") or given
    return " ".join(map(str, given)) if isinstance(given, list) else str(given)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")
