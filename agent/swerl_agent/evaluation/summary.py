"""Summary and predictions of an evaluation.

Guarantees: lost samples are counted apart and enter no rate. Files appear whole or not at all.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from swerl_agent.grading.harness_summary import (
    COMPLETED,
    EMPTY_PATCH,
    ERROR,
    RESOLVED,
    SUBMITTED,
    UNRESOLVED,
    harness_summary,
)
from swerl_agent.storage import write_atomic

from .records import RESULTS, ResultsError, SampleId, SampleRecord, SampleRecords

Z = 1.959964  # standard normal quantile of a 95 % interval


def pass_at_k(samples: int, solved: int, k: int) -> float:
    """Probability that one of `k` draws without replacement is solved (Chen et al. 2021, eq. 1)."""
    if samples - solved < k:
        return 1.0
    return 1.0 - math.comb(samples - solved, k) / math.comb(samples, k)


def wilson(rate: float, count: int) -> tuple[float, float]:
    """95 % interval of a rate over `count` independent tasks (Wilson 1927)."""
    if count == 0:
        return 0.0, 1.0
    centre = rate + Z * Z / (2 * count)
    spread = Z * math.sqrt(rate * (1 - rate) / count + Z * Z / (4 * count * count))
    scale = 1 + Z * Z / count
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def summarise(
    records: Sequence[SampleRecord], *, model: str, data: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Rates over tasks, with intervals, and averages over samples."""
    valid = [record for record in records if record.valid]
    by_task: dict[str, list[SampleRecord]] = defaultdict(list)
    for record in valid:
        by_task[record.instance_id].append(record)
    fewest = min(map(len, by_task.values()), default=0)
    return {
        "model": model,
        "data": data,
        "total": len({record.instance_id for record in records}),
        "samples": len(records),
        "resolved": sum(record.resolved for record in valid),
        "resolve_rate": round(_rate(by_task, 1), 4) if by_task else 0.0,
        "pass_at_k": {str(k): _with_interval(by_task, k) for k in _ks(fewest)},
        "errors": len(records) - len(valid),
        "no_patch": sum(record.patch_source is None for record in valid),
        "avg_steps": round(fmean(record.n_steps for record in valid), 2) if valid else 0.0,
        "avg_elapsed_s": round(fmean(record.elapsed for record in valid), 1) if valid else 0.0,
        "exit_statuses": dict(sorted(Counter(record.exit_status for record in records).items())),
        "verdicts": dict(sorted(Counter(record.verdict for record in valid if record.verdict).items())),
        **_by_harness_names(records),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "args": dict(arguments),
    }


def _by_harness_names(records: Iterable[SampleRecord]) -> dict[str, Any]:
    """Counts and ids under the harness's names, by the samples that `predictions` has the patches of."""
    ids: dict[str, list[str]] = defaultdict(list)
    for record in _first_samples(records):
        kind = ERROR if not record.valid else EMPTY_PATCH if record.patch_source is None else COMPLETED
        outcome = [RESOLVED if record.resolved else UNRESOLVED] if kind == COMPLETED else []
        for each in (SUBMITTED, kind, *outcome):
            ids[each].append(record.instance_id)
    return harness_summary(ids)


def _first_samples(records: Iterable[SampleRecord]) -> Iterable[SampleRecord]:
    """Each task's first valid sample, its first sample where none is valid."""
    first: dict[str, SampleRecord] = {}
    for record in sorted(records, key=lambda record: (not record.valid, record.sample_id)):
        first.setdefault(record.instance_id, record)
    return sorted(first.values(), key=lambda record: record.instance_id)


def write(
    folder: Path, summary: Mapping[str, Any], predictions: Mapping[str, Mapping[str, str]], *, durable: bool = True
) -> None:
    """summary.json, and preds.json in the format of the SWE-bench harness."""
    files = {folder / "summary.json": _json(summary), folder / "preds.json": _json(predictions)}
    write_atomic(files, durable=durable)


def predictions(
    folder: Path, records: Iterable[SampleRecord], model: str, read: dict[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """The patch of each task's first valid sample, of its first sample where none is valid; '' without a patch.

    `read` caches patches by the sample's folder.
    """
    found: dict[str, dict[str, str]] = {}
    known = {} if read is None else read
    for record in _first_samples(records):
        if record.run_dir not in known:
            known[record.run_dir] = _patch(folder / record.run_dir) if record.run_dir else ""
        row = {"model_name_or_path": model, "instance_id": record.instance_id, "model_patch": known[record.run_dir]}
        found[record.instance_id] = row
    return found


def _patch(sample: Path) -> str:
    path = sample / "patch.diff"
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""


def merge(folder: Path, shards: Sequence[Path], *, replace_existing: bool = False) -> SampleRecords:
    """The records of shards in one folder, artifacts named by their paths; raises ResultsError, OSError.

    May be repeated, also after the shards went on or the process was killed: each shard's newest records count. Other
    records of the folder stay unless `replace_existing`. A sample of two shards is an error, because the shards did not
    partition the tasks; so is a sample that the folder has from elsewhere.
    """
    found = _of_all(folder, shards)
    if replace_existing:
        return SampleRecords.rewritten_with(folder, list(found.values()))
    merged = SampleRecords(folder)
    for record in found.values():
        before = merged.of(record.sample_id)
        if before is not None and before.valid and _place(before) != _place(record):
            what = f"sample {record.sample} of {record.instance_id}"
            raise ResultsError(f"{folder} has {what} from {_place(before)!r} already; choose another folder")
    merged.extend([record for record in found.values() if record != merged.of(record.sample_id)])
    return merged


def _of_all(folder: Path, shards: Sequence[Path]) -> dict[SampleId, SampleRecord]:
    """The newest record of every sample of the shards, with paths relative to `folder`."""
    found: dict[SampleId, SampleRecord] = {}
    for shard in shards:
        if not (shard / RESULTS).exists():
            raise ResultsError(f"{shard} has no {RESULTS}: it is not a shard, or it has not started")
        if shard.resolve() == folder.resolve():
            raise ResultsError(f"{shard} is the merged folder and cannot be a shard of it; choose another folder")
        for record in SampleRecords(shard).all:
            if record.sample_id in found and found[record.sample_id].valid:
                raise ResultsError(f"{shard}: sample {record.sample} of {record.instance_id} is in another shard, too")
            where = os.path.relpath(shard / record.run_dir, folder) if record.run_dir else ""
            found[record.sample_id] = replace(record, run_dir=where)
    return found


def _place(record: SampleRecord) -> str:
    """The folder that the sample was run in."""
    return str(Path(record.run_dir).parent)


def _ks(samples: int) -> list[int]:
    """1 and the powers of two up to the samples that every task has, and that number itself."""
    powers = [1 << bit for bit in range(samples.bit_length()) if 1 << bit <= samples]
    return sorted({*powers, samples}) if samples else []


def _rate(by_task: Mapping[str, Sequence[SampleRecord]], k: int) -> float:
    return fmean(pass_at_k(len(found), sum(r.resolved for r in found), k) for found in by_task.values())


def _with_interval(by_task: Mapping[str, Sequence[SampleRecord]], k: int) -> dict[str, float]:
    rate = _rate(by_task, k)
    low, high = wilson(rate, len(by_task))
    return {"rate": round(rate, 4), "low": round(low, 4), "high": round(high, 4)}


def _json(content: Mapping[str, Any]) -> list[bytes]:
    return [json.dumps(content, indent=1).encode(), b"\n"]
