"""Making attempts of an output folder again, once, however often the process is killed on the way.

Guarantee: an attempt that was chosen is made again exactly once, by this run or by one after it, also when that one is
told to redo the same; its earlier line stays in the results file, and counts no more.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from swerl_agent.storage import write_atomic

from .records import Records, Trial

REDO = "redo.json"  # of an output folder: attempts to make again, each with the line from which on a result is new
Mode = Literal["unresolved", "all"]


class Redo:
    """What is left to make again in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REDO
        found = json.loads(self._path.read_text()) if self._path.exists() else []
        self._from: dict[Trial, int] = {(name, sample): line for name, sample, line in found}

    def choose(self, records: Records, trials: Collection[Trial], mode: Mode | None) -> None:
        """Have those of `trials` with a result made again that `mode` says, and those still left from before."""
        chosen = [record for record in records.all if record.trial in trials and (mode == "all" or not record.resolved)]
        for record in chosen if mode else []:
            self._from.setdefault(record.trial, records.lines)
        self._save()
        records.forget([trial for trial, line in self._from.items() if records.line(trial) < line])

    def done(self, records: Records) -> None:
        """Once nothing is left, forget what was chosen, so that it may be chosen again."""
        if all(records.line(trial) >= line for trial, line in self._from.items()):
            self._from = {}
            self._save()

    def _save(self) -> None:
        rows = [[*trial, line] for trial, line in sorted(self._from.items())]
        if rows:
            write_atomic({self._path: [json.dumps(rows).encode()]})
        else:
            self._path.unlink(missing_ok=True)
