"""A condition that is False says why, and a blocked object names the reason in its status."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from swerl_api import EvalCondition, JobCondition, SweEvalStatus, SweRLJobStatus
from swerl_operator.evals.status import EvalStatusBuilder
from swerl_operator.jobs.status import JobStatusBuilder
from swerl_operator.problem import Problem

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPERATOR = Path(__file__).parents[3] / "operator/swerl_operator"
WITHOUT_MESSAGE = re.compile(r'condition\(\s*[\w.]+,\s*"False",\s*[\w.]+\s*\)')


@pytest.mark.parametrize("path", sorted(OPERATOR.rglob("*.py")), ids=lambda path: str(path.relative_to(OPERATOR)))
def test_no_condition_is_false_without_a_message(path: Path) -> None:
    assert WITHOUT_MESSAGE.findall(path.read_text()) == []


@pytest.mark.parametrize(
    ("builder", "type"),
    [
        (JobStatusBuilder(SweRLJobStatus(), 1, NOW), JobCondition.VALIDATED),
        (EvalStatusBuilder(SweEvalStatus(), 1, NOW), EvalCondition.VALIDATED),
    ],
)
def test_blocked_object_names_the_reason_until_it_goes_on(
    builder: JobStatusBuilder | EvalStatusBuilder, type: str
) -> None:
    builder.block(type, Problem("RuntimeClassMissing", "no RuntimeClass gvisor"))
    patch = builder.patch()
    assert patch is not None and patch["status"]["reason"] == "RuntimeClassMissing"
    later = builder.__class__(builder.status, 1, NOW)
    later.phase("Starting")
    patch = later.patch()
    assert patch is not None and patch["status"] == {"phase": "Starting", "reason": None}
