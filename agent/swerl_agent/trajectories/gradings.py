"""Records of gradings beside the folders of episodes: outcomes of named tests, and logs.

They show the task's tests: callers ask for the right to see ground truth. Guarantee: any file gives a record or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerl_agent.grading import record_path

from .fields import listed, mapping, read_object, text

LARGEST_RECORD = 16 << 20  # bytes
OUTCOMES = {"success": "passed", "failure": "failed"}
ABSENT = "never ran"


@dataclass(frozen=True)
class GradedTest:
    """What a grading found of one test."""

    kind: str  # FAIL_TO_PASS, PASS_TO_PASS
    name: str
    outcome: str  # passed, failed, never ran


@dataclass(frozen=True)
class StoredGrading:
    """One record."""

    reason: str  # of the verdict, with names of tests
    tests: tuple[GradedTest, ...]  # those that did not pass first
    log: str


def read_grading(episode: Path) -> StoredGrading | None:
    """The record of the grading of this folder's episode; None where there is none, as for a patch that did not run."""
    found = read_object(record_path(episode), largest=LARGEST_RECORD)
    return stored_grading(found) if found else None


def stored_grading(record: Mapping[str, Any]) -> StoredGrading:
    """The record in the content of its file."""
    tests = sorted(_tests(record), key=lambda test: test.outcome == OUTCOMES["success"])
    return StoredGrading(text(record.get("detail")), tuple(tests), text(record.get("log")))


def _tests(record: Mapping[str, Any]) -> Iterator[GradedTest]:
    absent = set(map(text, listed(record.get("never_appeared"))))
    for kind, outcomes in mapping(record.get("tests")).items():
        for outcome, names in mapping(outcomes).items():
            for name in map(text, listed(names)):
                yield GradedTest(kind, name, ABSENT if name in absent else OUTCOMES.get(outcome, outcome))
