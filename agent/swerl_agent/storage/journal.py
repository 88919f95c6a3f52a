"""Rows that are kept one after the other, as lines of a file.

Guarantees: a row is on disk, whole, when `append` returns, also when several threads append; one that cannot be written
leaves the file as it was, and so do the rows of an `extend` that was killed; a last line that a crash cut short is
dropped, any other unreadable line is an error with its number.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Generic, TypeVar

from .whole import write_whole

T = TypeVar("T")


class JournalError(ValueError):
    """A line that is no row of the journal; the message names file and line."""


class Journal(Generic[T]):
    """The file `path`, each line a JSON object of which `read` makes a row.

    `read` raises KeyError, TypeError or ValueError for an object that is none.
    """

    def __init__(self, path: Path, read: Callable[[Mapping[str, Any]], T]) -> None:
        """Make the folder if there is none, and change nothing in the file; raises OSError."""
        self._path, self._read = path, read
        self._writing = threading.Lock()
        self._ends_whole = False  # whether the file is known to end with a whole line
        path.parent.mkdir(parents=True, exist_ok=True)

    def rows(self) -> Iterator[T]:
        """Every row in the order of writing; raises JournalError, OSError."""
        for number, line in enumerate(self._whole().split(b"\n"), 1):
            if line.strip():
                yield self._row(number, line)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row; raises OSError."""
        line = _line(row)
        with self._writing, self._path.open("ab+", buffering=0) as file:
            size = self._end(file)
            try:
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise

    def extend(self, rows: Iterable[Mapping[str, Any]], *, afresh: bool = False) -> None:
        """Write rows, all of them or, however the process ends, none; `afresh`: in the place of those before.

        Raises OSError.
        """
        with self._writing:
            write_whole({self._path: [b"" if afresh else self._whole(), *map(_line, rows)]})
            self._ends_whole = True

    def _whole(self) -> bytes:
        """The whole lines of the file."""
        if not self._path.exists():
            return b""
        content, newline, _ = self._path.read_bytes().rpartition(b"\n")
        return content + newline

    def _end(self, file: FileIO) -> int:
        """Where the next line begins; what a crash left there is dropped."""
        if not self._ends_whole:
            file.seek(0)
            whole, newline, _ = file.readall().rpartition(b"\n")
            file.truncate(len(whole) + len(newline))
            self._ends_whole = True
        return file.seek(0, os.SEEK_END)

    def _row(self, number: int, line: bytes) -> T:
        try:
            return self._read(dict(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(f"{self._path}:{number}: {type(error).__name__}: {error}") from error


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"
