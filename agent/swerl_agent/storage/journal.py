"""Rows that are kept one after the other, as lines of a file.

Guarantees: a row is on disk, whole, when `append` returns; one that cannot be written leaves the file as it was; a last
line that a crash cut short is dropped, any other unreadable line is an error with its number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class JournalError(ValueError):
    """A line that is no row of the journal; the message names file and line."""


class Journal(Generic[T]):
    """The file `path`, each line a JSON object of which `read` makes a row.

    `read` raises KeyError, TypeError or ValueError for an object that is none.
    """

    def __init__(self, path: Path, read: Callable[[Mapping[str, Any]], T]) -> None:
        """Make the file if there is none, and drop a line cut short; raises OSError."""
        self._path, self._read = path, read
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            file.seek(0)
            whole, newline, _ = file.read().rpartition(b"\n")
            file.truncate(len(whole) + len(newline))

    def rows(self) -> Iterator[T]:
        """Every row in the order of writing; raises JournalError, OSError."""
        for number, line in enumerate(self._path.read_bytes().split(b"\n"), 1):
            if line.strip():
                yield self._row(number, line)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row; raises OSError."""
        line = json.dumps(row).encode() + b"\n"
        with self._path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise

    def _row(self, number: int, line: bytes) -> T:
        try:
            return self._read(dict(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(f"{self._path}:{number}: {type(error).__name__}: {error}") from error
