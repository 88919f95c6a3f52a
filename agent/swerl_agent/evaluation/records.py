"""Records of an evaluation's samples, as lines of a file.

Guarantees: those of `storage.Journal`; of several lines about one sample the last counts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from swerl_agent.storage import Journal, JournalError

RESULTS = "results.jsonl"
SampleId = tuple[str, int]  # instance_id, sample


class ResultsError(ValueError):
    """A results file cannot be read, or belongs to another evaluation."""


@dataclass(frozen=True)
class SampleRecord:
    """The outcome of one sample."""

    instance_id: str
    sample: int
    resolved: bool
    valid: bool  # False: infrastructure or a template ended it; the sample is retried
    exit_status: str
    verdict: str
    patch_source: str | None
    n_steps: int
    error: str | None
    elapsed: float  # seconds from the sample's start to its verdict
    run_dir: str  # folder of its artifacts, relative to the results file

    @property
    def sample_id(self) -> SampleId:
        return self.instance_id, self.sample

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> SampleRecord:
        """The record of a line; raises KeyError for a missing field."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})


class SampleRecords:
    """The file `results.jsonl` of one folder."""

    def __init__(self, folder: Path) -> None:
        """Read the existing records; raises ResultsError, OSError."""
        self._journal = Journal(folder / RESULTS, SampleRecord.read)
        self._found: dict[SampleId, SampleRecord] = {}
        self._lines: dict[SampleId, int] = {}
        self._adding = threading.Lock()  # keeps the lines in the order of the file
        self.lines = 0  # of the file
        try:
            for record in self._journal.rows():
                self._keep(record)
        except JournalError as error:
            raise ResultsError(f"not a result: {error}; remove the line or choose another output folder") from error

    @classmethod
    def rewritten_with(cls, folder: Path, records: Sequence[SampleRecord]) -> Self:
        """The file with its content replaced by `records`; raises OSError."""
        Journal(folder / RESULTS, SampleRecord.read).extend(map(asdict, records), replace=True)
        return cls(folder)

    @property
    def all(self) -> list[SampleRecord]:
        """The last record of every sample, by task and sample."""
        return [self._found[sample_id] for sample_id in sorted(self._found)]

    def has_valid_record(self, sample_id: SampleId) -> bool:
        """Whether the sample has a valid record."""
        return sample_id in self._found and self._found[sample_id].valid

    def of(self, sample_id: SampleId) -> SampleRecord | None:
        """The last record of a sample."""
        return self._found.get(sample_id)

    def add(self, record: SampleRecord) -> None:
        """Add a record, on disk first; raises OSError. Threads may add at the same time."""
        with self._adding:
            self._journal.append(asdict(record))
            self._keep(record)

    def extend(self, records: Sequence[SampleRecord]) -> None:
        """Add all records atomically; raises OSError."""
        with self._adding:
            self._journal.extend(map(asdict, records))
            for record in records:
                self._keep(record)

    def line(self, sample_id: SampleId) -> int:
        """Line (from 0) of the sample's last record, -1 when there is none."""
        return self._lines.get(sample_id, -1)

    def discard(self, sample_ids: list[SampleId]) -> None:
        """Mark these samples as unsettled; their lines stay in the file."""
        for sample_id in sample_ids:
            self._found.pop(sample_id, None)

    def _keep(self, record: SampleRecord) -> None:
        self._found[record.sample_id] = record
        self._lines[record.sample_id] = self.lines
        self.lines += 1
