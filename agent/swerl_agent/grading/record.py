"""What people read of a grading: the outcome of each test, and the end of its log.

Guarantees: a record names tests, so it lies beside the episodes' folders, which hold no ground truth; it has at most
`LOG_BYTES` of log and `NAMED_TESTS` names of each kind and outcome.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .verdict import Verdict

RECORDS = ".gradings"  # folder beside those of episodes; one file per episode, named as its folder
RECORD_FORMAT = "swerl-grading-1"
LOG_BYTES = 64 << 10  # of a log's end
NAMED_TESTS = 1_000


def log_end(log: bytes) -> str:
    """The end of a log as text; a first line says how much is missing."""
    end = log[-LOG_BYTES:].decode("utf-8", "replace")
    missing = len(log) - LOG_BYTES
    return f"[{missing} bytes before this are not kept]\n{end}" if missing > 0 else end


def record_path(episode: Path) -> Path:
    """The file of the grading of the episode in this folder."""
    return episode.parent / RECORDS / f"{episode.name}.json"


def record_content(verdict: Verdict) -> bytes | None:
    """The record as JSON; None for a verdict without a log, such as one on a patch that was not run."""
    if not verdict.log:
        return None
    found: dict[str, Any] = {
        "grading_format": RECORD_FORMAT,
        "status": verdict.status,
        "detail": verdict.detail,
        "cached": verdict.cached,
        "image": verdict.image,
        "tests": _named(verdict.report.get("tests_status") or {}),
        "never_appeared": list(verdict.report.get("never_appeared") or {})[:NAMED_TESTS],
        "log": verdict.log,
    }
    return (json.dumps(found) + "\n").encode()


def _named(status: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Tests by kind (FAIL_TO_PASS, ...) and outcome."""
    return {
        kind: {outcome: list(tests)[:NAMED_TESTS] for outcome, tests in outcomes.items()}
        for kind, outcomes in status.items()
    }
