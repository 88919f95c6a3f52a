"""The episodes below a folder, read from their artifacts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swerl_agent.audit import TrajectoryError
from swerl_agent.storage import file_name

from .fields import integer, mapping, number, read_object, text
from .runs import EPISODE, EpisodesFolder, Finder
from .trajectory import Trajectory, read_trajectory

_STEP = re.compile(r"(step|evaluation)-(\d+)")


@dataclass(frozen=True)
class StoredEpisode:
    """The artifacts of one ended episode."""

    folder: Path
    trajectory: Trajectory
    patch: str
    model: str  # '' where no file names it
    data: str  # the data set of its evaluation, '' where no file names it

    @property
    def info(self) -> Mapping[str, Any]:
        """The content of its meta.json."""
        return self.trajectory.info

    @property
    def task(self) -> str:
        """The id of its task."""
        return text(self.info.get("instance_id")) or self.folder.name.partition("__g")[0]

    @property
    def number(self) -> int:
        """Its place in its group, from 0."""
        found = EPISODE.fullmatch(self.folder.name)
        given = integer(self.info.get("index"))
        return max(0, (int(found[1][:9]) if found else 0) if given is None else given)

    @property
    def ended(self) -> float:
        """Seconds since 1970."""
        found = EPISODE.fullmatch(self.folder.name)
        return int(found[2]) / 1e9 if found else 0.0

    @property
    def seconds(self) -> float | None:
        """How long the agent ran."""
        return number(mapping(self.info.get("timings")).get("total"))

    @property
    def resolved(self) -> bool | None:
        """Whether the patch solves the task; None where the episode says nothing about it."""
        status = text(mapping(self.info.get("verdict")).get("status"))
        lost = bool(self.info.get("infrastructure_error")) or bool(self.info.get("interrupted"))
        return None if lost or status in ("", "infra_error") else status == "resolved"


@dataclass(frozen=True)
class EpisodeSet:
    """The episodes of one evaluation, or of one step of a job."""

    name: str  # a file name
    root: Path
    run: str  # path of the job or the evaluation below `root`
    folders: tuple[EpisodesFolder, ...]

    def episodes(self) -> Iterator[StoredEpisode | TrajectoryError]:
        """Each episode, or the error of the one that cannot be read."""
        settings = read_object(self.root / self.run / "settings.json")
        for folder in self.folders:
            for name in folder.episodes:
                try:
                    yield read_episode(self.root / folder.path / name, settings)
                except TrajectoryError as error:
                    yield error


def episode_sets(root: Path) -> list[EpisodeSet]:
    """The sets below `root`, which may also be the folder of one episode; their names differ."""
    if EPISODE.fullmatch(root.name):
        alone = EpisodesFolder("", "episodes", "", (root.name,))
        return [EpisodeSet(file_name(root.name), root.parent, "", (alone,))]
    found: dict[tuple[str, str], list[EpisodesFolder]] = {}
    for folder in Finder(root).walk():
        last = folder.path.rpartition("/")[2]
        if folder.episodes:
            found.setdefault((folder.run, last if _STEP.fullmatch(last) else ""), []).append(folder)
    sets, taken = list[EpisodeSet](), set[str]()
    for (run, step), folders in found.items():
        name = file_name("-".join(filter(None, [run or root.resolve().name, step])))[:120]
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        sets.append(EpisodeSet(name, root, run, tuple(folders)))
    return sets


def read_episode(folder: Path, settings: Mapping[str, Any] | None = None) -> StoredEpisode:
    """The episode in a folder of an evaluation with these `settings`; raises TrajectoryError."""
    settings = settings or {}
    if not folder.is_dir():
        raise TrajectoryError(f"{folder} does not exist; `swerl trajectories ls` lists the folders of episodes")
    if not read_object(folder / "meta.json"):
        raise TrajectoryError(f"{folder} has no readable meta.json: the episode has not ended, or the file is damaged")
    trajectory = load(folder)
    if not (trajectory.turns or trajectory.opening) and not read_object(folder / "traj.json"):
        raise TrajectoryError(f"{folder / 'traj.json'} cannot be read: it is missing, damaged or too large")
    model = text(trajectory.info.get("model")) or text(settings.get("model"))
    return StoredEpisode(folder, trajectory, patch_of(folder), model, text(settings.get("data")))


def load(folder: Path) -> Trajectory:
    """The trajectory in an episode's folder; without turns where it is half-written. meta.json counts first."""
    content = read_object(folder / "traj.json")
    return read_trajectory({**content, "info": {**mapping(content.get("info")), **read_object(folder / "meta.json")}})


def patch_of(folder: Path) -> str:
    """The episode's patch, '' without one."""
    try:
        return (folder / "patch.diff").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def purpose_of(folder: str, info: Mapping[str, Any]) -> tuple[str, int | None]:
    """train, evaluation or sample, and the step, of an episode in the folder of this path."""
    found = _STEP.fullmatch(folder.rpartition("/")[2])
    if found:
        return "train" if found[1] == "step" else "evaluation", int(found[2][:15])
    return "sample", integer(info.get("step"))


def without_tokens(episode: StoredEpisode) -> StoredEpisode:
    """The episode without its token sequences."""
    for turn in episode.trajectory.turns:
        turn.tokens = None
    return replace(episode, trajectory=replace(episode.trajectory, segments=[]))
