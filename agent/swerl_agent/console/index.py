"""The SQLite index of the episodes below a folder.

Guarantees: an episode is read once. It is in the index as soon as its meta.json is whole, and leaves it with its
folder. An index that cannot be read is built again. Readers and the one writer may be in different threads.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

from swerl_agent.trajectories.fields import read_object
from swerl_agent.trajectories.live import LiveEpisodes
from swerl_agent.trajectories.runs import EpisodesFolder, Finder

from .row import EpisodeRow, episode_row

NAME = ".swerl-index.sqlite"
VERSION = 2  # of the tables below
BATCH = 500  # rows of one transaction
COLUMNS = EpisodeRow.columns()
SCHEMA = f"""
create table episodes ({", ".join(COLUMNS)}, primary key (path)) without rowid;
create index by_folder on episodes (folder);
create index by_time on episodes (run, ended);
create index by_prompt on episodes (run, purpose, step, group_id, member);
create index by_task on episodes (run, task, resolved);
create index of_counts on episodes (run, resolved, ended);
create index of_verdicts on episodes (run, verdict);
create index of_exit_statuses on episodes (run, exit_status);
create index of_all on episodes (ended);
create table runs (path primary key, kind) without rowid;
pragma user_version = {VERSION};
"""


def index_path(root: Path, cache: Path) -> Path:
    """Where the index of `root` is: inside, or in `cache` where the folder is read-only."""
    if os.access(root, os.W_OK):
        return root / NAME
    digest = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return cache / f"{digest}.sqlite"


def is_foreign(path: Path) -> bool:
    """Whether the file exists and is something else than an index, so that it must not be overwritten."""
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return False
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            raise
        return True
    return bool(tables) and "episodes" not in tables


class EpisodeIndex:
    """The index of `root` in the file `path`."""

    def __init__(self, root: Path, path: Path) -> None:
        """Open or create it; raises OSError or sqlite3.Error where the file cannot be written."""
        self.root, self._path = root, path
        self._finder = Finder(root)
        self._settled: dict[str, tuple[str, ...]] = {}  # episodes of a folder that are all in the index
        self._live = LiveEpisodes(root)
        self.running: Mapping[str, Mapping[str, Any]] = {}  # rows of episodes that run, by the path of their live file
        self.scans = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self._usable():
            path.unlink(missing_ok=True)
            with closing(sqlite3.connect(path)) as database:
                database.executescript(SCHEMA)

    def _usable(self) -> bool:
        try:
            with closing(sqlite3.connect(self._path)) as database:
                found: int = database.execute("pragma user_version").fetchone()[0]
                database.execute("select path from episodes limit 1")
                return found == VERSION
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise
            return False

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries; rows are read by column name."""
        with closing(sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)) as database:
            database.row_factory = sqlite3.Row
            yield database

    def scan(self) -> int:
        """Bring the index up to date with the folder; how many episodes were read."""
        with closing(sqlite3.connect(self._path, timeout=30)) as database:
            folders, read = [], 0
            for folder in self._finder.walk():
                folders.append(folder)
                if self._settled.get(folder.path) != folder.episodes:
                    read += self._update(database, folder)
            self._remove(database, folders)
        self.running = self._live.rows(folders)
        self.scans += 1
        return read

    def _update(self, database: sqlite3.Connection, folder: EpisodesFolder) -> int:
        known = {path for (path,) in database.execute("select path from episodes where folder = ?", [folder.path])}
        prefix = f"{folder.path}/" if folder.path else ""
        _delete(database, known - {prefix + name for name in folder.episodes})
        with database:
            database.execute("insert or replace into runs values (?, ?)", [folder.run, folder.kind])
        missing = [name for name in folder.episodes if prefix + name not in known]
        read = 0
        for start in range(0, len(missing), BATCH):
            rows = list(self._rows(folder, missing[start : start + BATCH]))
            with database:
                database.executemany(f"insert or replace into episodes values ({_marks(COLUMNS)})", map(astuple, rows))
            read += len(rows)
        if read == len(missing):  # else the others are being written
            self._settled[folder.path] = folder.episodes
        return read

    def _rows(self, folder: EpisodesFolder, names: Iterable[str]) -> Iterator[EpisodeRow]:
        for name in names:
            if meta := read_object(self.root / folder.path / name / "meta.json"):
                yield episode_row(folder, name, meta)

    def _remove(self, database: sqlite3.Connection, folders: Sequence[EpisodesFolder]) -> None:
        """Remove runs and episodes whose folder is gone, or belongs to another run now."""
        present = {folder.path: folder.run for folder in folders}
        removed_paths = [
            (folder, run)
            for folder, run in database.execute("select distinct folder, run from episodes").fetchall()
            if present.get(folder) != run
        ]
        runs = {folder.run for folder in folders}
        with database:
            database.executemany("delete from episodes where folder = ? and run = ?", removed_paths)
            stored = [path for (path,) in database.execute("select path from runs")]
            database.executemany("delete from runs where path = ?", [[path] for path in stored if path not in runs])
        for folder, _ in removed_paths:
            self._settled.pop(folder, None)


def _delete(database: sqlite3.Connection, paths: Iterable[str]) -> None:
    with database:
        database.executemany("delete from episodes where path = ?", [[path] for path in paths])


def _marks(columns: Sequence[Any]) -> str:
    return ", ".join("?" * len(columns))
