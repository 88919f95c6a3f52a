"""Checkpoints of a job in a folder that outlives its Pods.

Guarantees: `newest` returns a checkpoint only when everything in it is on disk: the marker is written last, after
fsync, and one rename gives the folder its name. An incomplete checkpoint is never loaded; it is logged, and the next
write removes it. The newest complete checkpoint is never pruned.

Layout: `<root>/step-0000012/{COMPLETE, state.json, ...}`; in progress: `<root>/.writing-0000012-<pid>`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerl_api.names import checkpoint_name

logger = logging.getLogger(__name__)

MARKER = "COMPLETE"
STATE = "state.json"
_NAME = re.compile(r"^step-(\d{7,})$")
_WRITING = ".writing-"


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message names the folder."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    step: int
    state: dict[str, Any]  # the driver's part, as given to `write`


class CheckpointStore:
    """The checkpoints of one job under `root`; `keep_last` complete ones are kept (0 keeps all)."""

    def __init__(self, root: Path, *, keep_last: int = 2) -> None:
        self.root = root
        self.keep_last = keep_last

    def complete(self) -> list[Checkpoint]:
        """Complete checkpoints, oldest first; incomplete and unreadable ones are logged and left out."""
        return [found for folder in self._folders() if (found := _read(folder)) is not None]

    def newest(self) -> Checkpoint | None:
        """The checkpoint to resume from, None when there is none."""
        for folder in reversed(self._folders()):
            if (found := _read(folder)) is not None:
                return found
        return None

    @asynccontextmanager
    async def write(self, step: int, state: Mapping[str, Any]) -> AsyncIterator[Path]:
        """A folder to fill with the ranks' files; the checkpoint exists when the block ends without an exception.

        `state` is the driver's part (data cursor, buffer, attempt), JSON-able. Raises CheckpointError when the write
        fails; a checkpoint of the same step is replaced.
        """
        try:
            folder = self._begin(step)
            yield folder
            self._finish(folder, step, state)
        except OSError as error:
            raise CheckpointError(f"checkpoint of step {step} under {self.root}: {error}") from error

    def _begin(self, step: int) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        for incomplete in self.root.glob(f"{_WRITING}*"):
            logger.warning("removing incomplete checkpoint %s", incomplete)
            shutil.rmtree(incomplete, ignore_errors=True)
        folder = self.root / f"{_WRITING}{step:07d}-{os.getpid()}"
        folder.mkdir()
        return folder

    def _finish(self, folder: Path, step: int, state: Mapping[str, Any]) -> None:
        (folder / STATE).write_text(json.dumps(dict(state), indent=1))
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
        self._prune()

    def _prune(self) -> None:
        if not self.keep_last:
            return
        for old in self.complete()[: -self.keep_last]:
            (old.folder / MARKER).unlink()  # incomplete before it is removed
            shutil.rmtree(old.folder)

    def _folders(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return sorted((p for p in self.root.iterdir() if _NAME.match(p.name)), key=_step)


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
    except (OSError, ValueError) as error:
        logger.warning("ignoring unreadable checkpoint %s: %s", folder, error)
        return None
    return Checkpoint(folder=folder, step=_step(folder), state=state)


def fsync_path(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
