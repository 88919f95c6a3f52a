"""Finds jobs, evaluations and their episodes below a folder.

A run is the folder of a job or of an evaluation; its episodes may lie deeper. Guarantees: symbolic links are not
followed; folders of models, checkpoints and logs are not entered.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

RunKind = Literal["job", "evaluation", "episodes"]

EPISODE = re.compile(r".+__g.*__i(\d+)__(\d{15,20})")
LIVE = re.compile(r".+__g.*__i(\d+)__live\.jsonl")
SHARD = re.compile(r"shard-\d+-of-\d+")
OF_A_JOB = frozenset({"job.json", "metrics.jsonl", "artifacts"})
OF_AN_EVALUATION = frozenset({"results.jsonl", "settings.json"})  # others have a summary.json, too: `make demo`
NOT_ENTERED = re.compile(r"checkpoints|tensorboard|adapter|models|logs|verdicts|\..*|model-step-.*|before-.*")
DEEPEST = 8
MTIME_RESOLUTION = 2.0  # seconds after a change in which the same time of change may stand for a later one


@dataclass(frozen=True)
class Listing:
    """What one folder holds."""

    files: frozenset[str]
    folders: tuple[str, ...]
    episodes: tuple[str, ...]
    live: tuple[str, ...]


@dataclass(frozen=True)
class EpisodesFolder:
    """A folder that holds episodes of a run; paths are relative to the viewed folder, '' is that folder."""

    run: str
    kind: RunKind
    path: str
    episodes: tuple[str, ...]  # names of their folders
    live: tuple[str, ...] = ()  # names of the files of episodes that run


@dataclass
class Finder:
    """Walks `root`; a folder that did not change since the last walk is not listed again."""

    root: Path
    _known: dict[str, tuple[int, Listing]] = field(default_factory=dict)

    def walk(self) -> Iterator[EpisodesFolder]:
        """Every run's folder, and every folder below it that holds episodes."""
        yield from self._walk("", None, 0)

    def _walk(self, path: str, run: tuple[str, RunKind] | None, depth: int) -> Iterator[EpisodesFolder]:
        listing = self._listing(path)
        if listing is None or depth > DEEPEST:
            return
        inside = run or self._run_at(path, listing)
        if inside and (listing.episodes or listing.live or not run):
            yield EpisodesFolder(*inside, path, listing.episodes, listing.live)
        for name in listing.folders:
            yield from self._walk(f"{path}/{name}" if path else name, inside, depth + 1)

    def _run_at(self, path: str, listing: Listing) -> tuple[str, RunKind] | None:
        if listing.files & OF_A_JOB:
            return path, "job"
        if listing.files & OF_AN_EVALUATION or any(map(SHARD.fullmatch, listing.folders)):
            return path, "evaluation"
        return (path, "episodes") if listing.episodes or listing.live else None

    def _listing(self, path: str) -> Listing | None:
        folder = self.root / path
        try:
            changed = folder.stat().st_mtime_ns
            known = self._known.get(path)
            if known and known[0] == changed:
                return known[1]
            listing = _list(folder)
        except OSError:
            self._known.pop(path, None)
            return None
        if time.time() - changed / 1e9 > MTIME_RESOLUTION:
            self._known[path] = changed, listing
        return listing


def _list(folder: Path) -> Listing:
    files, folders, episodes, live = set[str](), list[str](), list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            name = os.fsencode(entry.name).decode("utf-8", "replace")
            if name != entry.name:
                continue  # no name of ours
            if not entry.is_dir(follow_symlinks=False):
                (live.append if LIVE.fullmatch(name) else files.add)(name)
            elif EPISODE.fullmatch(name):
                episodes.append(name)
            elif not NOT_ENTERED.fullmatch(name):
                folders.append(name)
                files.add(name)
    return Listing(frozenset(files), tuple(sorted(folders)), tuple(sorted(episodes)), tuple(sorted(live)))
