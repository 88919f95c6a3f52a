"""Verdicts on logs of earlier gradings, by the tests and parsers of the tasks as they are now, without another run.

Guarantees: a log alone never gives a better verdict than its run could: what the earlier report calls tampering, a
failed contrast, or a patch that ran no tests stays so. A new verdict is `resolved` by the log alone (`witnessed` is
false), and only where nothing of the log was left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swerl_agent.tasks import Task

from .absent_tests import absent_tests
from .predictions import LOG, PATCH, REPORT, Prediction, PredictionError
from .swebench_report import grade_log
from .verdict import Verdict, VerdictStatus
from .verdict_rules import tests_in_words

FINAL = ("policy_blocked", "patch_apply_failed", "infra_error")  # earlier statuses of which no test log was written


@dataclass(frozen=True)
class SavedRun:
    """What an earlier grading of one patch left on disk."""

    prediction: Prediction
    log: bytes | None = field(repr=False)  # None: no tests were run
    report: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the earlier one; empty where there is none


def saved_runs(root: Path) -> list[SavedRun]:
    """The runs at `<root>/<model>/<instance_id>/`, as `swerl grade` and the SWE-bench harness write them.

    Raises PredictionError when there is none, or for a report that cannot be read.
    """
    found = [run for folder in sorted(root.glob("*/*/")) for run in _run(folder)]
    if not found:
        raise PredictionError(f"{root} holds no MODEL/INSTANCE_ID/{LOG} or {REPORT}; give the folder of an earlier run")
    return found


def _run(folder: Path) -> Iterator[SavedRun]:
    log, report = folder / LOG, folder / REPORT
    if not log.is_file() and not report.is_file():
        return
    name, earlier = folder.name, {}
    if report.is_file():
        try:
            [(name, earlier)] = json.loads(report.read_text(encoding="utf-8")).items()
            earlier = dict(earlier)
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise PredictionError(f"{report}: is not a report of one instance: {error}") from error
    patch = folder / PATCH
    text = patch.read_bytes().decode("utf-8", "surrogateescape") if patch.is_file() else ""
    content = log.read_bytes() if log.is_file() else None
    yield SavedRun(Prediction(name, folder.parent.name, text), content, earlier)


def verdict_again(task: Task, run: SavedRun) -> Verdict:
    """The verdict on `run` by the tests of `task`."""
    earlier = run.report
    status = str(earlier.get("status") or "")
    if run.log is None or status in FINAL:
        return _as_before(run, status)
    try:
        report = grade_log(task, run.log)
    except MemoryError:
        raise  # the limit of this process; it says nothing about the log
    except Exception as error:  # swebench's parsers raise what they like on output that they do not know
        words = f"the log cannot be read by {task.ground_truth.log_parser}: {type(error).__name__}: {error}"
        return Verdict("unresolved", {"resolved": False, "parser_error": True}, detail=words)
    kept = {key: earlier[key] for key in ("tampering", "contrast", "log_bytes_left_out") if earlier.get(key)}
    report |= {**kept, "witnessed": False, "by_saved_log": True}
    against = _against(earlier)
    if not report["resolved"] and (absent := absent_tests(task, run.log)):
        report["never_appeared"] = absent
    report["resolved"] = bool(report["resolved"]) and not against
    decided: VerdictStatus = "resolved" if report["resolved"] else "timeout" if status == "timeout" else "unresolved"
    detail = against or ", ".join(filter(None, [tests_in_words(report), "by the saved log alone"]))
    return Verdict(decided, report, detail=detail, image=str(earlier.get("image") or ""))


def _as_before(run: SavedRun, status: str) -> Verdict:
    """The earlier verdict of a run without a test log."""
    if not status:
        return Verdict("unresolved", {"resolved": False}, detail=f"no {LOG} was saved")
    known = {"status", "duration", "cached", "detail", "image"}
    report = {key: value for key, value in run.report.items() if key not in known}
    detail, image = str(run.report.get("detail") or ""), str(run.report.get("image") or "")
    return Verdict(status, report, detail=detail, image=image)  # type: ignore[arg-type]


def _against(earlier: Mapping[str, Any]) -> str:
    """What of the earlier grading forbids a resolved verdict, '' for nothing."""
    if earlier.get("tampering"):
        return f"tampering: {'; '.join(map(str, earlier['tampering']))}"
    if earlier.get("contrast") == "failed":
        return str(earlier.get("detail") or "contrast failed")
    if left_out := earlier.get("log_bytes_left_out"):
        return f"the log was too long: {left_out} bytes of its middle were not kept"
    return ""
