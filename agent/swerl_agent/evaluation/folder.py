"""An evaluation's output folder: what it was begun with, and what its results amount to.

Guarantees: results of different models, or of what else must agree, never mix; summary and predictions are whole at
every moment, and hold every attempt that was settled when they were last written; making attempts anew is decided once
per run, so that a run which is killed and started again makes none of them twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from swerl_agent.storage import write_atomic

from .records import RESULTS, RecordError, Records
from .summary import predictions, summarise, write

SETTINGS = "settings.json"  # what an output folder was begun with: `model`, `data`, `attempts`, and `choice` of tasks
AGREE = ("model", "attempts")  # what results of one folder have in common; by others it may grow


def keep_settings(folder: Path, settings: Mapping[str, Any], *, agree: Sequence[str] = ("model",)) -> None:
    """Write `settings`; raises RecordError when the folder was begun with others under the keys `agree`."""
    check_agreement(folder, read_settings(folder), settings, agree)
    write_atomic({folder / SETTINGS: [(json.dumps(dict(settings), indent=1) + "\n").encode()]})


def check_agreement(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any], agree: Sequence[str]) -> None:
    """Raises RecordError where `before`, the settings of `folder`, says something else than `now` under `agree`."""
    for key in agree:
        if key in before and before[key] != now.get(key):
            old, new = _differing(before[key], now.get(key))
            raise RecordError(f"{folder} holds results of {key} {old!r}, not {new!r}; choose another folder")


def _differing(old: Any, new: Any) -> tuple[Any, Any]:
    """Of two mappings what they do not have in common."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old, new
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return {name: old.get(name) for name in names}, {name: new.get(name) for name in names}


def read_settings(folder: Path) -> dict[str, Any]:
    """What the folder was begun with; empty for a new one."""
    path = folder / SETTINGS
    settings: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return settings


class Conclusions:
    """`summary.json` and `preds.json` of `folder`: what `records` amount to, begun with `settings`."""

    def __init__(self, folder: Path, records: Records, settings: Mapping[str, Any]) -> None:
        self._folder, self._records, self._settings = folder, records, settings
        self._patches: dict[str, str] = {}  # that were read, by folder of the attempt
        self._lines = -1  # of the results when both were written
        self._writing = threading.Lock()

    def write(self) -> None:
        """Write both unless nothing is new; raises OSError. Threads may call it at the same time."""
        with self._writing:
            lines = self._records.lines
            if lines != self._lines:
                self.made(durable=False)
                self._lines = lines

    def made(self, *, durable: bool = True) -> dict[str, Any]:
        """Write both; the summary. `durable`: so that they survive the machine."""
        model, data = self._settings.get("model", ""), self._settings.get("data", "")
        arguments = {**self._settings.get("attempts", {}), **self._settings.get("choice", {})}
        found = self._records.all
        summary = summarise(found, model=model, data=data, arguments=arguments)
        write(self._folder, summary, predictions(self._folder, found, model, self._patches), durable=durable)
        return summary


def conclude(folder: Path, records: Records, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write summary and predictions; the summary."""
    return Conclusions(folder, records, settings).made()


def begin_again(folder: Path, run: str, redo: Literal["unresolved", "all"]) -> None:
    """Lay the results aside that were there before `run` (a name of its own); `unresolved` keeps what is resolved.

    May be repeated: what `run` itself has found stays.
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
    records = Records(folder)
    for record in Records(aside).all:
        if record.resolved and not records.settled(record.trial):
            records.add(record)
