"""An append-only journal: one JSON object a line.

Guarantees:
* A row is on disk in full when `append` returns; several threads may append.
* A row that cannot be written leaves the file unchanged. So does an `extend` that is killed.
* An incomplete last line, left by a crash, is dropped. Any other unreadable line is an error with its number.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Generic, TypeVar

from .atomic import write_atomic

T = TypeVar("T")


class JournalError(ValueError):
    """A line is not a row of the journal; the message names file and line."""


class Journal(Generic[T]):
    """The file `path`. `read` makes a row of the JSON object in a line.

    `read` raises KeyError, TypeError or ValueError for an object that is not a row.
    """

    def __init__(self, path: Path, read: Callable[[Mapping[str, Any]], T]) -> None:
        """Create the folder if it is missing; the file is not changed. Raises OSError."""
        self._path, self._read = path, read
        self._lock = threading.Lock()
        self._ends_with_newline = False  # whether the file is known to end with a complete line
        path.parent.mkdir(parents=True, exist_ok=True)

    def rows(self) -> Iterator[T]:
        """All rows, oldest first; raises JournalError, OSError."""
        for number, line in enumerate(self._complete_lines().split(b"\n"), 1):
            if line.strip():
                yield self._row(number, line)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row; raises OSError."""
        line = _line(row)
        with self._lock, self._path.open("ab+", buffering=0) as file:
            size = self._end(file)
            try:
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise

    def extend(self, rows: Iterable[Mapping[str, Any]], *, replace: bool = False) -> None:
        """Write all rows, or none when the process is killed. `replace`: drop the earlier rows. Raises OSError."""
        with self._lock:
            write_atomic({self._path: [b"" if replace else self._complete_lines(), *map(_line, rows)]})
            self._ends_with_newline = True

    def _complete_lines(self) -> bytes:
        """The complete lines of the file."""
        if not self._path.exists():
            return b""
        content, newline, _ = self._path.read_bytes().rpartition(b"\n")
        return content + newline

    def _end(self, file: FileIO) -> int:
        """Offset of the next line; an incomplete last line is truncated."""
        if not self._ends_with_newline:
            file.seek(0)
            whole, newline, _ = file.readall().rpartition(b"\n")
            file.truncate(len(whole) + len(newline))
            self._ends_with_newline = True
        return file.seek(0, os.SEEK_END)

    def _row(self, number: int, line: bytes) -> T:
        try:
            return self._read(dict(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(f"{self._path}:{number}: {type(error).__name__}: {error}") from error


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"
