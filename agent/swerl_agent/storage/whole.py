"""Files that appear whole or stay as they were."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path


class NotWritten(OSError):
    """A file that could not be written; the message names it."""


def write_whole(files: Mapping[Path, Iterable[bytes]], *, durable: bool = True) -> None:
    """Replace each file by its parts, all of them or, when one cannot be written, none; folders are made.

    `durable`: wait for the disk, so that the content survives the machine, too. Raises NotWritten.
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
        raise NotWritten(f"{path}: cannot be written: {error.strerror}; what was there is as it was") from error
