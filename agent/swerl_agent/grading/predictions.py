"""Predictions in SWE-bench's format, and what grading them leaves on disk.

Guarantees: an instance's report is written, whole or not at all, as soon as there is a verdict; what is there already
is not graded again, unless infrastructure or a limit of time or memory decided it; the summary holds every prediction
exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from swerl_agent.storage import file_name, write_atomic

from .harness_summary import COMPLETED, EMPTY_PATCH, ERROR, RESOLVED, SUBMITTED, UNRESOLVED, harness_summary
from .verdict import Verdict

REPORT = "report.json"
PATCH = "patch.diff"
LOG = "test_output.txt"
SCRIPT = "eval.sh"


class PredictionError(ValueError):
    """A predictions file that cannot be read; the message names it, the line and the field."""


@dataclass(frozen=True)
class Prediction:
    """One row: a model's patch for one instance, '' for none."""

    instance_id: str
    model: str
    patch: str


def read_predictions(path: Path) -> list[Prediction]:
    """A list, an object by instance_id, or JSON Lines; raises PredictionError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PredictionError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    found = [_prediction(row, where) for where, row in _rows(path, text)]
    repeated = {each.instance_id for each in found if sum(each.instance_id == one.instance_id for one in found) > 1}
    if repeated:
        raise PredictionError(f"{path}: instance_id given more than once: {', '.join(sorted(repeated))}")
    if not found:
        raise PredictionError(f"{path} holds no prediction")
    return found


def _rows(path: Path, text: str) -> Iterable[tuple[str, Any]]:
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"{path}:{number}", _json(line, f"{path}:{number}")
        return
    content = _json(text, str(path))
    if isinstance(content, dict):
        for name, row in content.items():
            yield f"{path}, {name}", {"instance_id": name, **row} if isinstance(row, dict) else row
    elif isinstance(content, list):
        for number, row in enumerate(content):
            yield f"{path}, item {number}", row
    else:
        raise PredictionError(f"{path}: must be a list, an object or, named .jsonl, one object per line")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise PredictionError(f"{where}: not valid JSON: {error}") from error


def _prediction(row: Any, where: str) -> Prediction:
    if not isinstance(row, dict):
        raise PredictionError(f"{where}: a prediction must be an object")
    if not isinstance(row.get("instance_id"), str):
        raise PredictionError(f"{where}: field instance_id is missing")
    if "model_patch" not in row:
        raise PredictionError(f"{where}: field model_patch is missing")
    patch = row["model_patch"] if row["model_patch"] is not None else ""
    if not isinstance(patch, str):
        raise PredictionError(f"{where}: field model_patch must be a string or null")
    return Prediction(row["instance_id"], str(row.get("model_name_or_path") or "unknown"), patch)


@dataclass(frozen=True)
class ReportFolder:
    """`<root>/<model>/<instance_id>/{report.json, patch.diff, eval.sh, test_output.txt}` and `<root>/<model>.json`, as
    SWE-bench has it; a patch that no tests were run on has the first two alone."""

    root: Path

    def done(self, prediction: Prediction) -> dict[str, Any] | None:
        """The report of an earlier run on the same patch, unless its verdict may be another one next time."""
        folder = self._folder(prediction)
        try:
            report = dict(json.loads((folder / REPORT).read_text(encoding="utf-8"))[prediction.instance_id])
            same = (folder / PATCH).read_bytes() == _bytes(prediction.patch)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        verdict = Verdict(report.get("status") or "unresolved", report, detail=str(report.get("detail") or ""))
        return report if same and verdict.lasting else None

    def write(self, prediction: Prediction, verdict: Verdict) -> dict[str, Any]:
        """Write and return the report on `verdict`; raises OSError when the disk refuses."""
        folder, report = self._folder(prediction), instance_report(prediction.patch, verdict)
        files = {folder / PATCH: prediction.patch, folder / REPORT: _indented({prediction.instance_id: report})}
        write_atomic({path: [_bytes(text)] for path, text in files.items()})
        return report

    def write_log(self, prediction: Prediction, eval_script: str, log: bytes) -> None:
        """Write what ran and what it printed; raises OSError when the disk refuses."""
        folder = self._folder(prediction)
        write_atomic({folder / SCRIPT: [_bytes(eval_script)], folder / LOG: [log]}, durable=False)

    def summarise(
        self, model: str, reports: Mapping[str, Mapping[str, Any]], unknown: Sequence[str], total: int
    ) -> Path:
        """Write the run's summary, with the harness's names; its path."""
        path = self.root / f"{_safe(model)}.json"
        write_atomic({path: [_indented(summary(reports, unknown, total)).encode()]})
        return path

    def _folder(self, prediction: Prediction) -> Path:
        return self.root / _safe(prediction.model) / _safe(prediction.instance_id)


def instance_report(patch: str, verdict: Verdict) -> dict[str, Any]:
    """The report on one instance, with the harness's names and the verdict's."""
    said = asdict(verdict)
    del said["log"]  # is a file of its own
    known = {
        "patch_is_None": False,
        "patch_exists": bool(patch),
        "patch_successfully_applied": False,
        "resolved": verdict.resolved,
        "infra_failure": verdict.status == "infra_error",
    }
    return {**known, **said.pop("report"), "patch_exists": bool(patch), **said}


def summary(
    reports: Mapping[str, Mapping[str, Any]], unknown: Sequence[str], total: int | None = None
) -> dict[str, Any]:
    """Counts and ids over instances' reports; `unknown`: predictions without a known task; `total`: tasks chosen."""
    completed = [name for name, report in reports.items() if _graded(report)]
    ids = {
        SUBMITTED: [*reports, *unknown],
        COMPLETED: completed,
        RESOLVED: [name for name, report in reports.items() if report["resolved"]],
        UNRESOLVED: [name for name in completed if not reports[name]["resolved"]],
        EMPTY_PATCH: [name for name, report in reports.items() if not report["patch_exists"]],
        ERROR: [name for name, report in reports.items() if report["status"] == "infra_error"],
        "tampering": [name for name, report in reports.items() if report.get("tampering")],
        "unwitnessed": [name for name, report in reports.items() if _is_unwitnessed(report)],
        "unknown": unknown,
    }
    return {**harness_summary(ids, total), "schema_version": 2}


def _graded(report: Mapping[str, Any]) -> bool:
    return bool(report["patch_exists"]) and report["status"] != "infra_error"


def _is_unwitnessed(report: Mapping[str, Any]) -> bool:
    return bool(report["resolved"]) and not report.get("witnessed")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which policy refuses
        return text.encode("utf-8", "surrogatepass")


def _indented(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _safe(name: str) -> str:
    return file_name(name.replace("/", "__"))
