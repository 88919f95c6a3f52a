"""An evaluation's output folder: its settings, summary and predictions.

Guarantees: results of different models or other settings that must match never mix. Summary and predictions are whole
at every moment and hold every sample that was settled when they were last written. Results are set aside once per run,
so that a run that is killed and restarted repeats no sample twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from swerl_agent.storage import write_atomic

from .records import RESULTS, ResultsError, SampleRecords
from .summary import predictions, summarise, write

SETTINGS = "settings.json"  # keys: `model`, `data`, `sample_options`, and `choice` of tasks
MUST_MATCH = ("model", "sample_options")  # settings that all results of one folder share


def write_settings(folder: Path, settings: Mapping[str, Any], *, must_match: Sequence[str] = ("model",)) -> None:
    """Write `settings`; raises ResultsError when those of the folder differ under the keys `must_match`."""
    check_settings(folder, read_settings(folder), settings, must_match)
    write_atomic({folder / SETTINGS: [(json.dumps(dict(settings), indent=1) + "\n").encode()]})


def check_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any], must_match: Sequence[str]) -> None:
    """Raises ResultsError where `before`, the settings of `folder`, differs from `now` under `must_match`."""
    for key in must_match:
        if key in before and before[key] != now.get(key):
            old, new = _differing(before[key], now.get(key))
            raise ResultsError(f"{folder} holds results of {key} {old!r}, not {new!r}; choose another folder")


def _differing(old: Any, new: Any) -> tuple[Any, Any]:
    """The differing parts of two mappings."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old, new
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return {name: old.get(name) for name in names}, {name: new.get(name) for name in names}


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of the folder; empty for a new one."""
    path = folder / SETTINGS
    settings: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return settings


class SummaryWriter:
    """Writes `summary.json` and `preds.json` of `folder` from `records` and `settings`."""

    def __init__(self, folder: Path, records: SampleRecords, settings: Mapping[str, Any]) -> None:
        self._folder, self._records, self._settings = folder, records, settings
        self._patches: dict[str, str] = {}  # cache by the sample's folder
        self._lines = -1  # of the results at the last write
        self._writing = threading.Lock()

    def write(self) -> None:
        """Write both files unless nothing is new; raises OSError. Threads may call it at the same time."""
        with self._writing:
            lines = self._records.lines
            if lines != self._lines:
                self.finish(durable=False)
                self._lines = lines

    def finish(self, *, durable: bool = True) -> dict[str, Any]:
        """Write both files; the summary. `durable`: they survive a crash of the machine."""
        model, data = self._settings.get("model", ""), self._settings.get("data", "")
        arguments = {**self._settings.get("sample_options", {}), **self._settings.get("choice", {})}
        found = self._records.all
        summary = summarise(found, model=model, data=data, arguments=arguments)
        write(self._folder, summary, predictions(self._folder, found, model, self._patches), durable=durable)
        return summary


def write_summary(folder: Path, records: SampleRecords, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write summary and predictions; the summary."""
    return SummaryWriter(folder, records, settings).finish()


def set_results_aside(folder: Path, run: str, redo: Literal["unresolved", "all"]) -> None:
    """Set aside the results from before `run` (a unique name); `unresolved` keeps resolved samples.

    May be repeated: results of `run` itself stay.
    """
    aside = folder / f"before-{run}"
    aside.mkdir(parents=True, exist_ok=True)
    if not (aside / RESULTS).exists():
        if redo == "all" and (folder / SETTINGS).exists():
            (folder / SETTINGS).replace(aside / SETTINGS)
        if (folder / RESULTS).exists():
            (folder / RESULTS).replace(aside / RESULTS)
        else:
            (aside / RESULTS).touch()
    if redo == "all":
        return
    records = SampleRecords(folder)
    for record in SampleRecords(aside).all:
        if record.resolved and not records.has_valid_record(record.sample_id):
            records.add(record)
