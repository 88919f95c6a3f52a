"""Atomic writes: a file has its new content in full, or its old content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path


class WriteFailed(OSError):
    """A file could not be written; the message names it."""


def write_atomic(files: Mapping[Path, Iterable[bytes]], *, durable: bool = True) -> None:
    """Replace the content of each file by its parts; create missing folders. If one cannot be written, none changes.

    `durable`: sync each file, so that its content also survives a crash of the machine. Raises WriteFailed.
    """
    partial = {path: path.with_name(path.name + ".part") for path in files}
    try:
        for path, parts in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial[path].open("wb") as content:
                content.writelines(parts)
                content.flush()
                if durable:
                    os.fsync(content.fileno())
        for path, written in partial.items():
            written.replace(path)
    except OSError as error:
        for written in partial.values():
            written.unlink(missing_ok=True)
        raise WriteFailed(f"{path}: cannot be written: {error.strerror}; its previous content is unchanged") from error
