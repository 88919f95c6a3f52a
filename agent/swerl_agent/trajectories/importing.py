"""Trajectories of other agents, stored as episodes of this project.

Guarantees: one odd file never ends the import of the others. A file that did not change is imported once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swerl_agent.audit import TrajectoryError
from swerl_agent.audit.trajectory import instance_id, trajectory_content, trajectory_files
from swerl_agent.episode.artifacts import artifact_prefix, write_artifacts
from swerl_agent.grading import Verdict
from swerl_agent.grading.verdict import VerdictStatus

from .fields import integer, listed, read_object, text
from .foreign import foreign_episode

OUTCOMES: Mapping[str, VerdictStatus] = {  # lists of ids in a report of the SWE-bench harness
    "resolved_ids": "resolved",
    "unresolved_ids": "unresolved",
    "error_ids": "unresolved",
}
NAMES = ("*.traj.json", "*.traj")  # of files; traj.json is this project's
EARLIEST = 10**15  # the least time that the name of an episode's folder ends with
LONGEST_ID = 150  # characters, so that the folder's name fits a file system


@dataclass
class ImportCount:
    """What an import did."""

    episodes: int = 0
    known: int = 0  # that an earlier import wrote
    failed: int = 0


def import_trajectories(
    paths: Sequence[Path],
    output: Path,
    *,
    verdicts: Mapping[str, Verdict] | None = None,
    on_error: Callable[[TrajectoryError], None],
) -> ImportCount:
    """Write the trajectories at `paths` as episodes below `output`; `on_error` gets the error of each odd file.

    `verdicts` by task's id. Raises OSError when the disk refuses.
    """
    count, numbers = ImportCount(), _Numbers(output)
    for file in (file for path in paths for file in trajectory_files(path, NAMES)):
        try:
            content = trajectory_content(file)
            name = instance_id(file, content)
            written = _import(file, name, numbers.of(name, file), content, output, (verdicts or {}).get(name))
        except TrajectoryError as error:
            count.failed += 1
            on_error(error)
            continue
        numbers.keep(name, file)
        count.episodes += written
        count.known += not written
    return count


class _Numbers:
    """The index of each imported file among the episodes of its task: that of an earlier import, else the next one."""

    def __init__(self, output: Path) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._next = Counter[str]()
        for meta in map(read_object, output.glob("*/meta.json")):
            index = integer(meta.get("index"))
            if index is not None and (origin := text(meta.get("imported_from"))):
                self._record(text(meta.get("instance_id")), str(Path(origin).absolute()), index)

    def of(self, name: str, file: Path) -> int:
        """The index of the episode of task `name` in `file`."""
        return self._known.get((name, str(file.resolve())), self._next[name])

    def keep(self, name: str, file: Path) -> None:
        """Take the index that `of` returned."""
        self._record(name, str(file.resolve()), self.of(name, file))

    def _record(self, name: str, origin: str, index: int) -> None:
        self._known[name, origin] = index
        self._next[name] = max(self._next[name], index + 1)


def _import(
    file: Path, name: str, index: int, content: Mapping[str, object], output: Path, verdict: Verdict | None
) -> bool:
    """Whether the episode of `file` is new."""
    if text(content.get("trajectory_format")).startswith("swerl-"):
        raise TrajectoryError(f"{file} is a trajectory of swerl; view and export read its folder as it is")
    if len(name) > LONGEST_ID:
        raise TrajectoryError(f"{file}: its instance_id has {len(name)} characters, at most {LONGEST_ID} can be stored")
    try:
        episode, meta = foreign_episode(name, index, content)
    except RecursionError as error:
        raise TrajectoryError(f"{file} is nested too deeply") from error
    ended = max(EARLIEST, file.stat().st_mtime_ns)
    if (output / f"{artifact_prefix(episode)}{ended}").exists():
        return False
    meta |= {"imported_from": str(file.resolve()), **({"reward": int(verdict.resolved)} if verdict else {})}
    write_artifacts(output, episode, verdict, meta=meta, ended=ended)
    return True


def harness_verdicts(report: Path) -> dict[str, Verdict]:
    """The verdicts in a report of the SWE-bench harness, by id; raises TrajectoryError."""
    try:
        content = json.loads(report.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise TrajectoryError(f"{report} cannot be read: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("resolved_ids"), list):
        raise TrajectoryError(f"{report} is not a report of the SWE-bench harness: it has no list resolved_ids")
    return {
        str(each): Verdict(status, {}, detail=f"{key} of {report.name}")
        for key, status in OUTCOMES.items()
        for each in listed(content.get(key))
    }
