"""Episodes that run, from their live files.

Guarantees: a file is read once as it grows; incomplete lines wait for their end. Any content gives an episode.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .fields import LARGEST_FILE, integer, listed, mapping, number, text
from .runs import LIVE, EpisodesFolder
from .stored import purpose_of
from .trajectory import Trajectory, read_trajectory

STALE_SECONDS = 86_400.0  # seconds since its last line, after which its program counts as ended
STATES = {
    "total": "prepares its sandbox",
    "model": "waits for the model",
    "environment": "runs a command",
    "diff": "takes the patch",
}


@dataclass
class _LiveProgress:
    """What is known of one live file."""

    size: int = 0  # bytes that were read
    turns: int = 0
    state: str = ""
    at: float = 0.0  # seconds since 1970
    about: Mapping[str, Any] = field(default_factory=dict)

    def take(self, line: Mapping[str, Any]) -> None:
        self.about = mapping(line.get("about")) or self.about
        if "state" in line:
            self.state, self.at = text(line["state"]), number(line.get("at")) or self.at
        if not integer(line.get("first")):
            self.turns = 0
        self.turns += sum(mapping(each).get("role") == "assistant" for each in listed(line.get("messages")))


@dataclass
class LiveEpisodes:
    """The episodes that run below `root`."""

    root: Path
    _progress: dict[str, _LiveProgress] = field(default_factory=dict)

    def rows(self, folders: Iterable[EpisodesFolder]) -> dict[str, dict[str, Any]]:
        """What lists show of each, by the path of its file below the root."""
        found = dict[str, dict[str, Any]]()
        for folder in folders:
            for name in folder.live:
                path = f"{folder.path}/{name}" if folder.path else name
                progress = self._read(path)
                if progress and time.time() - progress.at < STALE_SECONDS:
                    found[path] = _row(folder, name, path, progress)
        self._progress = {path: self._progress[path] for path in found}
        return found

    def _read(self, path: str) -> _LiveProgress | None:
        progress = self._progress.get(path) or _LiveProgress()
        try:
            with (self.root / path).open("rb") as file:
                size = file.seek(0, 2)
                if size < progress.size:
                    progress = _LiveProgress()  # another episode took its place
                file.seek(progress.size)
                whole, newline, _ = file.read(LARGEST_FILE).rpartition(b"\n")
                changed = (self.root / path).stat().st_mtime
        except OSError:
            return None
        for line in _objects(whole):
            progress.take(line)
        progress.size += len(whole) + len(newline)
        progress.at = max(progress.at, changed)
        self._progress[path] = progress
        return progress


def _row(folder: EpisodesFolder, name: str, path: str, progress: _LiveProgress) -> dict[str, Any]:
    """The fields of the index's rows that pages use, and `state`, `started` and `at`."""
    about, matched = progress.about, LIVE.fullmatch(name)
    purpose, step = purpose_of(folder.path, about)
    started = number(about.get("started"))
    given = integer(about.get("index"))
    return {
        "path": path,
        "run": folder.run,
        "purpose": purpose,
        "step": step,
        "task": (text(about.get("instance_id")) or name.partition("__g")[0])[:1_000],
        "group_id": text(about.get("group"))[:1_000],
        "member": integer(int(matched[1][:9])) if matched and given is None else given,
        "verdict": "",
        "exit_status": "running",
        "resolved": None,
        "reward": None,
        "turns": progress.turns,
        "seconds": progress.at - started if started else None,
        "state": state_words(progress.state),
        "started": started * 1e9 if started else None,
        "at": progress.at * 1e9,
    }


def state_words(state: str) -> str:
    """A state for people; an exit status is one, too."""
    return STATES.get(state) or (f"ended ({state[:200]}), is graded" if state else "starts")


def live_trajectory(path: Path) -> Trajectory:
    """The trajectory in a live file so far; without turns where it is gone."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE)
    except OSError:
        content = b""
    return trajectory_so_far(content)


def trajectory_so_far(content: bytes) -> Trajectory:
    """The trajectory in the content of a live file."""
    info: dict[str, Any] = {}
    messages, steps = list[Any](), list[Any]()
    for line in _objects(content.rpartition(b"\n")[0]):
        info.update(mapping(line.get("about")))
        if "messages" in line:
            messages[integer(line.get("first")) or 0 :] = listed(line["messages"])
        steps += listed(line.get("steps"))
    return read_trajectory({"info": info, "messages": messages, "step_debug": steps})


def _objects(lines: bytes) -> Iterator[Mapping[str, Any]]:
    for line in lines.split(b"\n"):
        try:
            yield mapping(json.loads(line))
        except (ValueError, RecursionError):
            continue
