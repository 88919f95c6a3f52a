"""A set of episodes as an Inspect log, in inspect_ai's .eval format: a zip file with a JSON file for each sample.

Guarantees: the log appears whole or not at all; one episode at a time is in memory. Its status is `success` where every
task has every epoch, else `cancelled`: readers of samples then expect that some are missing.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from .inspect_sample import inspect_sample, sample_id, summary_of
from .portable import given, portable_json, whole_text
from .stored import StoredEpisode
from .viewer_fields import UNKNOWN

VERSION = 2  # of inspect_ai's log format
SCORER = "swerl"


class InspectLog:
    """Writes one log: `add` each episode, then `finish`, and `close` at the end."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path, self._part = path, path.with_name(path.name + ".part")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._zip = zipfile.ZipFile(self._part, "w", zipfile.ZIP_DEFLATED, allowZip64=True)
        self._summaries: list[dict[str, Any]] = []
        self._epochs: dict[str, set[int]] = {}
        self._model = self._data = ""

    def add(self, episode: StoredEpisode) -> None:
        """Write a sample. Raises OSError, and ValueError or RecursionError for what cannot be converted."""
        taken = self._epochs.get(sample_id(episode), set())
        epoch = episode.number + 1 if episode.number + 1 not in taken else max(taken) + 1
        sample = inspect_sample(episode, epoch)
        self._zip.writestr(f"samples/{sample['id']}_epoch_{epoch}.json", portable_json(sample))
        self._epochs[sample["id"]] = taken | {epoch}
        self._summaries.append(summary_of(sample))
        self._model, self._data = self._model or episode.model, self._data or episode.data

    def finish(self) -> None:
        """Complete the log; raises OSError."""
        header = self._header()
        start = {"version": VERSION, "eval": header["eval"], "plan": header["plan"]}
        self._zip.writestr("_journal/start.json", portable_json(start))
        self._zip.writestr("summaries.json", portable_json(self._summaries))
        self._zip.writestr("header.json", portable_json(header))
        self._zip.close()
        self._part.replace(self._path)

    def close(self) -> None:
        """Leave no file that is not finished."""
        self._zip.close()
        self._part.unlink(missing_ok=True)

    def _header(self) -> dict[str, Any]:
        name = self._path.stem
        times = sorted(filter(None, (each.get("completed_at") for each in self._summaries)))
        started = min(filter(None, (each.get("started_at") for each in self._summaries)), default="")
        digest = hashlib.sha256(name.encode()).hexdigest()[:22]
        ids, epochs = sorted(self._epochs), max((max(taken) for taken in self._epochs.values()), default=1)
        whole = all(len(taken) == epochs for taken in self._epochs.values())
        return {
            "version": VERSION,
            "status": "success" if whole else "cancelled",
            "eval": {
                "eval_id": digest,
                "run_id": digest,
                "created": started,
                "task": name,
                "task_id": digest,
                "dataset": given(name=self._data or None, samples=len(ids), sample_ids=ids),
                "model": whole_text(self._model) or UNKNOWN,
                "config": {"epochs": epochs},
                "scorers": [{"name": SCORER}],
            },
            "plan": {"name": "swerl", "steps": []},
            "results": {
                "total_samples": len(self._summaries),
                "completed_samples": len(self._summaries),
                "scores": [_score(name, self._summaries) for name in ("resolved", "reward")],
            },
            "stats": given(
                started_at=started, completed_at=times[-1] if times else "", model_usage=_sums(self._summaries)
            ),
        }


def _score(name: str, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [each["scores"][name]["value"] for each in summaries if name in each.get("scores", {})]
    metrics = {}
    if values:
        mean = "accuracy" if name == "resolved" else "mean"
        metrics[mean] = {"name": mean, "value": fmean(values)}
    if len(values) > 1:
        metrics["stderr"] = {"name": "stderr", "value": stdev(values) / len(values) ** 0.5}
    counts = {"scored_samples": len(values), "unscored_samples": len(summaries) - len(values)}
    return {"name": name, "scorer": SCORER, "metrics": metrics, **counts}


def _sums(summaries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Token usage by model."""
    found: dict[str, dict[str, float]] = {}
    for summary in summaries:
        for model, usage in summary.get("model_usage", {}).items():
            sums = found.setdefault(model, {})
            for name, value in usage.items():
                sums[name] = sums.get(name, 0) + value
    return found
