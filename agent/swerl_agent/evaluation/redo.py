"""Repeats samples of an output folder once, however often the process is killed meanwhile.

Guarantee: a chosen sample is repeated exactly once, by this run or a later one, even if that run redoes the same
samples. Its earlier line stays in the results file and no longer counts.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from swerl_agent.storage import write_atomic

from .records import SampleId, SampleRecords

REDO = "redo.json"  # samples to repeat, each with the first line that holds new results
Mode = Literal["unresolved", "all"]


class Redo:
    """Samples left to repeat in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REDO
        found = json.loads(self._path.read_text()) if self._path.exists() else []
        self._from: dict[SampleId, int] = {(name, sample): line for name, sample, line in found}

    def choose(self, records: SampleRecords, sample_ids: Collection[SampleId], mode: Mode | None) -> None:
        """Choose the settled ones of `sample_ids` that `mode` selects, and those left from an earlier run."""
        chosen = [
            record
            for record in records.all
            if record.sample_id in sample_ids and (mode == "all" or not record.resolved)
        ]
        for record in chosen if mode else []:
            self._from.setdefault(record.sample_id, records.lines)
        self._save()
        records.discard([sample_id for sample_id, line in self._from.items() if records.line(sample_id) < line])

    def done(self, records: SampleRecords) -> None:
        """Clear the choice once all chosen samples have new records."""
        if all(records.line(sample_id) >= line for sample_id, line in self._from.items()):
            self._from = {}
            self._save()

    def _save(self) -> None:
        rows = [[*sample_id, line] for sample_id, line in sorted(self._from.items())]
        if rows:
            write_atomic({self._path: [json.dumps(rows).encode()]})
        else:
            self._path.unlink(missing_ok=True)
