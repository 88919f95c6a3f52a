"""What becomes of a resolved verdict when its altered runs, or those of the reference fix, end early."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from swerl_agent.grading import Verdict
from swerl_agent.grading.cache import VerdictCache
from swerl_agent.grading.calibration import Alteration, Calibration
from swerl_agent.grading.contrast import AlteredRun, TestFiles, calibrated, calibrating
from swerl_agent.grading.contrast_runs import ContrastRuns, Execute
from swerl_agent.grading.framing import Report, TestFile
from swerl_agent.grading.job import LimitExceeded, Outcome
from swerl_agent.grading.log_reader import LogReader
from swerl_agent.grading.verdict import GradingIncomplete
from swerl_agent.tasks import Task

from tests.control_plane.grading.task_image import BASE_TEST, HIDDEN_TEST, Repository

FILES = {"tests/test_calc.py": TestFile(BASE_TEST.encode(), HIDDEN_TEST.encode())}
RAN = Report("eval", 0, 1.0, 0, b"", (), files=FILES)
RESOLVED = Verdict("resolved", {"resolved": True})


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Repository(tmp_path / "calc").task("image")


@pytest_asyncio.fixture
async def logs() -> AsyncIterator[LogReader]:
    reader = LogReader()
    yield reader
    await reader.close()


def known_calibration(task: Task) -> Calibration:
    run = calibrating(TestFiles(task, FILES), random.SystemRandom())
    assert run
    seen = {each.test_id: "passed" if each.alteration.passes else "failed" for each in run.expected}
    return calibrated(run, seen.__getitem__)  # type: ignore[arg-type]


async def confirmed(task: Task, logs: LogReader, execute: Execute) -> Verdict:
    return await ContrastRuns(execute, logs, VerdictCache(), "1").confirmed(task, "", RESOLVED, RAN)


@pytest.mark.parametrize(
    ("outcome", "status", "detail"),
    [
        (LimitExceeded("memory", "too much memory"), "unresolved", "too much memory"),
        (replace(RAN, exit_code=124), "timeout", "the run with altered tests took too long"),
        (
            replace(RAN, oom_kills=1),
            "unresolved",
            "the run with altered tests: processes were killed at the memory limit of the Pod",
        ),
    ],
)
async def test_altered_run_that_a_limit_ended_is_no_lasting_verdict(
    monkeypatch: pytest.MonkeyPatch, task: Task, logs: LogReader, outcome: Outcome, status: str, detail: str
) -> None:
    async def calibration(*about: object) -> Calibration:
        return known_calibration(task)

    async def execute(task: Task, patch: str, run: AlteredRun | None) -> Outcome:
        return outcome

    monkeypatch.setattr(ContrastRuns, "_calibration", calibration)
    verdict = await confirmed(task, logs, execute)
    assert (verdict.status, verdict.detail, verdict.report["resolved"]) == (status, detail, False)
    cache = VerdictCache()
    cache.put("key", verdict)
    assert cache.get("key") is None


@pytest.mark.parametrize(
    ("outcome", "seconds", "why"),
    [
        (replace(RAN, exit_code=124), 60.0, "it took too long"),
        (replace(RAN, oom_kills=2), 60.0, "processes were killed at the memory limit of the Pod"),
        (LimitExceeded("memory", "too much memory"), 60.0, "too much memory"),
        (RAN, 0.0, "the log could not be read within 0 s"),
    ],
)
async def test_contrast_that_a_limit_of_the_reference_fix_prevents_is_tried_again(
    task: Task, outcome: Outcome, seconds: float, why: str
) -> None:
    reader, cache, made = LogReader(seconds), VerdictCache(), []

    async def execute(task: Task, patch: str, run: AlteredRun | None) -> Outcome:
        made.append(patch)
        return outcome

    runs = ContrastRuns(execute, reader, cache, "1")
    for _ in range(2):
        verdict = await runs.confirmed(task, "", RESOLVED, RAN)
        assert (verdict.status, verdict.report["contrast"]) == ("resolved", "unavailable")
        assert verdict.report["contrast_reason"] == f"the reference fix with altered tests: {why}"
        cache.put("key", verdict)
        assert cache.get("key") is None
    assert made == [task.ground_truth.patch] * 4
    await reader.close()


async def test_altered_run_whose_log_cannot_be_read_in_time_is_no_lasting_verdict(
    monkeypatch: pytest.MonkeyPatch, task: Task
) -> None:
    async def calibration(*about: object) -> Calibration:
        return known_calibration(task)

    async def execute(task: Task, patch: str, run: AlteredRun | None) -> Outcome:
        return RAN

    monkeypatch.setattr(ContrastRuns, "_calibration", calibration)
    reader = LogReader(0.0)
    verdict = await confirmed(task, reader, execute)
    await reader.close()
    assert (verdict.status, verdict.lasting) == ("unresolved", False)
    assert verdict.detail == "the run with altered tests: the log could not be read within 0 s"


async def test_reference_fix_that_never_ends_says_nothing_of_the_patch(task: Task, logs: LogReader) -> None:
    async def execute(task: Task, patch: str, run: AlteredRun | None) -> Outcome:
        raise GradingIncomplete(Verdict("unresolved", {"retries": 2}, detail="every run was cut short: killed"))

    with pytest.raises(GradingIncomplete) as raised:
        await confirmed(task, logs, execute)
    verdict = raised.value.verdict
    assert (verdict.status, verdict.detail) == ("infra_error", "the reference fix: every run was cut short: killed")


@pytest.mark.parametrize("path", ["kit.py", "tests/kit.py"])
async def test_altered_file_never_undoes_what_the_patch_changes(
    monkeypatch: pytest.MonkeyPatch, task: Task, logs: LogReader, path: str
) -> None:
    """The doctest that decides is in a file of its own; a patch may change it unless it is one of the tests."""
    text = b'def f():\n    """Is one.\n\n    >>> f()\n    1\n    """\n    return 1\n'
    task = replace(task, ground_truth=replace(task.ground_truth, fail_to_pass=(f"{path}::kit.f",)))
    ran = replace(RAN, files={path: TestFile(text, text)})
    runs: list[AlteredRun | None] = []

    async def calibration(*about: object) -> Calibration:
        return Calibration({f"{path}::kit.f": (Alteration("", "value:0:1"),)})

    async def execute(task: Task, patch: str, run: AlteredRun | None) -> Outcome:
        runs.append(run)
        return LimitExceeded("memory", "too much memory")

    monkeypatch.setattr(ContrastRuns, "_calibration", calibration)
    patch = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -5 +5 @@\n-    1\n+    2\n"
    verdict = await ContrastRuns(execute, logs, VerdictCache(), "1").confirmed(task, patch, RESOLVED, ran)
    if path == "kit.py":
        assert verdict.resolved and verdict.report["contrast"] == "unavailable" and not runs
        assert verdict.report["contrast_reason"] == "the patch changes the files of the tests of FAIL_TO_PASS"
    else:
        assert not verdict.resolved and runs
