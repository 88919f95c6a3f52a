"""What an evaluation has found out so far, as lines of a file.

Guarantees: those of `storage.Journal`; of several lines about one attempt the last counts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from swerl_agent.storage import Journal, JournalError

RESULTS = "results.jsonl"
Trial = tuple[str, int]  # instance_id, sample


class RecordError(ValueError):
    """A results file that cannot be read or belongs to something else."""


@dataclass(frozen=True)
class Record:
    """One attempt at one task."""

    instance_id: str
    sample: int
    resolved: bool
    valid: bool  # False: infrastructure or a template ended it; it says nothing about the model and is tried again
    exit_status: str
    verdict: str
    patch_source: str | None
    n_steps: int
    error: str | None
    elapsed: float  # seconds from the start of the attempt to its verdict
    run_dir: str  # folder of its artifacts, relative to the results file

    @property
    def trial(self) -> Trial:
        return self.instance_id, self.sample

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Record:
        """The record that a line holds; raises KeyError for a field that is missing."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})


class Records:
    """The file `results.jsonl` of one folder."""

    def __init__(self, folder: Path) -> None:
        """Read what is there; raises RecordError, OSError."""
        self._journal = Journal(folder / RESULTS, Record.read)
        self._found: dict[Trial, Record] = {}
        self._lines: dict[Trial, int] = {}
        self._adding = threading.Lock()  # keeps the lines in the order of the file
        self.lines = 0  # of the file
        try:
            for record in self._journal.rows():
                self._keep(record)
        except JournalError as error:
            raise RecordError(f"not a result: {error}; remove the line or choose another output folder") from error

    @classmethod
    def of_these(cls, folder: Path, records: Sequence[Record]) -> Self:
        """The file with these records in the place of all that was there; raises OSError."""
        Journal(folder / RESULTS, Record.read).extend(map(asdict, records), replace=True)
        return cls(folder)

    @property
    def all(self) -> list[Record]:
        """The last record of every attempt, by task and sample."""
        return [self._found[trial] for trial in sorted(self._found)]

    def settled(self, trial: Trial) -> bool:
        """Whether the attempt was made and says something."""
        return trial in self._found and self._found[trial].valid

    def of(self, trial: Trial) -> Record | None:
        """The last record of an attempt."""
        return self._found.get(trial)

    def add(self, record: Record) -> None:
        """Keep a record, on disk first; raises OSError when the disk refuses. Threads may add at the same time."""
        with self._adding:
            self._journal.append(asdict(record))
            self._keep(record)

    def extend(self, records: Sequence[Record]) -> None:
        """Keep them all or, however the process ends, none; raises OSError."""
        with self._adding:
            self._journal.extend(map(asdict, records))
            for record in records:
                self._keep(record)

    def line(self, trial: Trial) -> int:
        """Line (from 0) of the last record of an attempt, -1 when there is none."""
        return self._lines.get(trial, -1)

    def forget(self, trials: list[Trial]) -> None:
        """Have these attempts made again; their lines stay until then."""
        for trial in trials:
            self._found.pop(trial, None)

    def _keep(self, record: Record) -> None:
        self._found[record.trial] = record
        self._lines[record.trial] = self.lines
        self.lines += 1
