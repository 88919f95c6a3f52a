"""An evaluation's output folder: what it was begun with, and what its results amount to.

Guarantees: results of different models, or of what else must agree, never mix; making attempts anew is decided once
per run, so that a run which is killed and started again makes none of them twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from swerl_agent.storage import write_whole

from .records import RESULTS, RecordError, Records
from .summary import predictions, summarise, write

SETTINGS = "settings.json"  # what an output folder was begun with: `model`, `data`, `attempts`, and `choice` of tasks
AGREE = ("model", "attempts")  # what results of one folder have in common; by others it may grow


def keep_settings(folder: Path, settings: Mapping[str, Any], *, agree: Sequence[str] = ("model",)) -> None:
    """Write `settings`; raises RecordError when the folder was begun with others under the keys `agree`."""
    check_agreement(folder, read_settings(folder), settings, agree)
    write_whole({folder / SETTINGS: [(json.dumps(dict(settings), indent=1) + "\n").encode()]})


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


def conclude(folder: Path, records: Records, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write summary and predictions; the summary."""
    model, data = settings.get("model", ""), settings.get("data", "")
    arguments = {**settings.get("attempts", {}), **settings.get("choice", {})}
    summary = summarise(records.all, model=model, data=data, arguments=arguments)
    write(folder, summary, predictions(folder, records.all, model))
    return summary


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
