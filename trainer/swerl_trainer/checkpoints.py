"""Checkpoints of a job in a folder that outlives its Pods.

Guarantees: a checkpoint is complete only when everything in it is on disk: the marker is written last, after fsync, and
one rename gives the folder its name. An incomplete checkpoint is never loaded; it is logged, and the next write removes
it. A checkpoint is pruned only when `keep_last` newer ones exist that are not later than the one just written. `damage`
finds every file of the ranks that changed since.

Layout: `<root>/step-0000012/{COMPLETE, state.json, files.json, ...}`; in progress: `<root>/.writing-0000012-<pid>`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from swerl_api.names import checkpoint_name

logger = logging.getLogger(__name__)

MARKER = "COMPLETE"
STATE = "state.json"
FILES = "files.json"
ABANDONED = ".abandoned"  # ends the name of a checkpoint that is damaged, or later than one that the job went back to
_NAME = re.compile(r"^step-(\d{7,})$")
_WRITING = ".writing-"
_BLOCK = 8 * 2**20  # bytes read at a time


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message names the folder."""


class FileSum(NamedTuple):
    """What identifies the content of a file."""

    bytes: int
    crc32: int


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    step: int
    state: dict[str, Any]  # the driver's part, as given to `finish`
    files: dict[str, FileSum] = field(default_factory=dict)  # the ranks' files by name


class CheckpointStore:
    """The checkpoints of one job under `root`; `keep_last` complete ones are kept (0 keeps all)."""

    def __init__(self, root: Path, *, keep_last: int = 2) -> None:
        self.root = root
        self.keep_last = keep_last

    def complete(self) -> list[Checkpoint]:
        """Complete checkpoints, oldest first; incomplete and unreadable ones are logged and left out."""
        return [checkpoint for folder in self._folders() if (checkpoint := _read(folder)) is not None]

    def begin(self, step: int) -> Path:
        """A folder for the ranks' files of `step`; what an earlier `begin` left unfinished is removed."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for incomplete in self.root.glob(f"{_WRITING}*"):
                logger.warning("removing incomplete checkpoint %s", incomplete)
                shutil.rmtree(incomplete, ignore_errors=True)
            folder = self.root / f"{_WRITING}{step:07d}-{os.getpid()}"
            folder.mkdir()
        except OSError as error:
            raise CheckpointError(f"checkpoint of step {step} under {self.root}: {error}") from error
        return folder

    def finish(self, folder: Path, step: int, state: Mapping[str, Any], files: Mapping[str, FileSum]) -> Checkpoint:
        """Make the content of `folder` the checkpoint of `step`; one of the same step is replaced.

        `state` is the driver's part (data cursor, pending work, attempt), JSON-able; `files` the sums of the ranks'
        files. Raises CheckpointError when the disk refuses.
        """
        try:
            self._complete(folder, step, state, files)
            self._prune(step)
        except OSError as error:
            raise CheckpointError(f"checkpoint of step {step} under {self.root}: {error}") from error
        return Checkpoint(self.root / checkpoint_name(step), step, dict(state), dict(files))

    def abandon(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Rename checkpoints so that no attempt resumes from them; their content stays."""
        for checkpoint in checkpoints:
            aside = set_aside(checkpoint.folder)
            logger.warning("checkpoint of step %d is abandoned: moved to %s", checkpoint.step, aside)

    def is_abandoned(self, name: str) -> bool:
        """Whether a checkpoint whose folder had this name was abandoned."""
        return (self.root / (name + ABANDONED)).is_dir()

    def _complete(self, folder: Path, step: int, state: Mapping[str, Any], files: Mapping[str, FileSum]) -> None:
        (folder / STATE).write_text(json.dumps(dict(state), indent=1))
        (folder / FILES).write_text(json.dumps(dict(files), indent=1))
        for path in sorted(folder.rglob("*"), reverse=True):
            fsync_path(path)
        (folder / MARKER).write_text(f"{step}\n")
        fsync_path(folder / MARKER)
        fsync_path(folder)
        final = self.root / checkpoint_name(step)
        if final.exists():
            shutil.rmtree(final)
        folder.rename(final)
        fsync_path(self.root)

    def _prune(self, step: int) -> None:
        """Later checkpoints do not count: an attempt that started from the model has not reached them yet."""
        if not self.keep_last:
            return
        reached = [checkpoint for checkpoint in self.complete() if checkpoint.step <= step]
        for old in reached[: -self.keep_last]:
            (old.folder / MARKER).unlink()  # incomplete before it is removed
            shutil.rmtree(old.folder)

    def _folders(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return sorted((p for p in self.root.iterdir() if _NAME.match(p.name)), key=_step)


def set_aside(folder: Path) -> Path:
    """Rename `folder` to the name of an abandoned one, in place of an earlier one; returns its new path."""
    aside = folder.with_name(folder.name + ABANDONED)
    if aside.exists():
        shutil.rmtree(aside)
    return folder.rename(aside)


def sum_files(folder: Path, names: Iterable[str]) -> dict[str, FileSum]:
    """The sums of the files `names` of `folder`, each read once."""
    return {name: _sum(folder / name) for name in names}


def damage(folder: Path, files: Mapping[str, Sequence[int]]) -> list[str]:
    """What is wrong with each file of `folder` that is not as `files` describes it."""
    problems = []
    for name, (size, crc32) in files.items():
        try:
            now = (folder / name).stat().st_size
            if now != size:
                problems.append(f"{name} has {now} bytes instead of {size}")
            elif _sum(folder / name).crc32 != crc32:
                problems.append(f"{name} has other content than was written")
        except OSError as error:
            problems.append(f"{name} cannot be read: {error.strerror}")
    return problems


def _sum(path: Path) -> FileSum:
    size = crc32 = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            size, crc32 = size + len(block), zlib.crc32(block, crc32)
    return FileSum(size, crc32)


def _step(folder: Path) -> int:
    match = _NAME.match(folder.name)
    if match is None:
        raise CheckpointError(f"{folder} does not have the name of a checkpoint")
    return int(match[1])


def _read(folder: Path) -> Checkpoint | None:
    if not (folder / MARKER).is_file():
        logger.warning("ignoring incomplete checkpoint %s: it has no %s", folder, MARKER)
        return None
    try:
        state = json.loads((folder / STATE).read_text())
        files = {name: FileSum(*sums) for name, sums in json.loads((folder / FILES).read_text()).items()}
    except (OSError, TypeError, ValueError) as error:
        logger.warning("ignoring unreadable checkpoint %s: %s", folder, error)
        return None
    return Checkpoint(folder=folder, step=_step(folder), state=state, files=files)


def fsync_path(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
