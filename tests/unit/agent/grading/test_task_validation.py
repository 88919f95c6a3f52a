"""What makes a task fit, flaky, or unfit, and what a check remembers."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.task_validation import TaskValidation, ValidationJournal, ValidationKind, ValidationRun
from swerl_agent.grading.verdict import VerdictStatus
from swerl_agent.tasks import GroundTruth, Task, TaskError
from swerl_agent.tasks.quarantine import Quarantined, read_quarantine, update_quarantine

TASK = Task("o__r-1", "o/r", "0" * 40, "1", "It breaks.", "image", GroundTruth("sh", "gold", "", ("t::a",), ("t::b",)))


def run(kind: ValidationKind, status: VerdictStatus, *failed: str) -> ValidationRun:
    tests = {"FAIL_TO_PASS": {"success": [], "failure": list(failed)}, "PASS_TO_PASS": {"success": [], "failure": []}}
    return ValidationRun.of(TASK, kind, Verdict(status, {"tests_status": tests, "seconds": 1.5}, detail="why"))


GOLD, EMPTY = run("gold", "resolved"), run("empty", "unresolved", "t::a")


@pytest.mark.parametrize(
    ("runs", "reason", "detail"),
    [
        ([GOLD, EMPTY], None, ""),
        ([GOLD, GOLD, EMPTY, EMPTY], None, ""),
        ([GOLD, run("empty", "timeout")], None, ""),
        ([run("gold", "unresolved", "t::b"), EMPTY], "gold_fails", "gold: unresolved, why"),
        ([run("gold", "patch_apply_failed"), EMPTY], "gold_fails", "gold: patch_apply_failed, why"),
        ([GOLD, run("empty", "resolved")], "empty_passes", "empty: resolved, why"),
        ([GOLD, run("gold", "unresolved", "t::b"), EMPTY], "flaky", "gold: resolved 1 of 2, unresolved 1 of 2"),
        ([GOLD, EMPTY, run("empty", "resolved")], "flaky", "empty: resolved 1 of 2, unresolved 1 of 2"),
        ([GOLD, EMPTY, run("empty", "unresolved", "t::a", "t::b")], "flaky", "t::b failed in some of 2 runs only"),
        ([GOLD, run("gold", "infra_error"), EMPTY], None, ""),
    ],
)
def test_all_runs_of_a_task_decide_its_fitness(runs: list[ValidationRun], reason: str | None, detail: str) -> None:
    checked = TaskValidation(TASK, tuple(runs))
    found = checked.quarantined
    assert (found.reason if found else None) == reason
    assert checked.fit == (reason is None)
    if found:
        assert detail in found.detail
        assert len(found.evidence["gold"]) + len(found.evidence["empty"]) == len(runs)


def test_infrastructure_failure_decides_nothing() -> None:
    for expected, runs in (
        (1, (run("gold", "infra_error"), EMPTY)),
        (2, (GOLD, run("gold", "infra_error"), EMPTY, EMPTY)),
    ):
        checked = TaskValidation(TASK, runs, expected)
        assert checked.undecided == "why"
        assert checked.quarantined is None
        assert not checked.fit


def test_one_run_against_a_task_is_enough() -> None:
    checked = TaskValidation(TASK, (run("gold", "unresolved", "t::b"), run("gold", "infra_error"), EMPTY), wanted=3)
    assert checked.quarantined is not None
    assert not checked.undecided


def test_runs_are_stored_by_the_content_of_their_task(tmp_path: Path) -> None:
    journal = ValidationJournal(tmp_path / "check" / "runs.jsonl")
    for patch_kind in (GOLD, EMPTY):
        journal.add(patch_kind)
    reopened = ValidationJournal(tmp_path / "check" / "runs.jsonl")
    assert reopened.runs(TASK) == [GOLD, EMPTY]
    assert reopened.runs(replace(TASK, image="another")) == []
    assert reopened.runs(replace(TASK, ground_truth=replace(TASK.ground_truth, patch="other"))) == []


@pytest.mark.parametrize(
    "verdict", [Verdict("timeout"), Verdict("unresolved", {"oom_kills": 1}), Verdict("unresolved", {"limited": True})]
)
def test_run_that_a_limit_decided_counts_under_the_same_limits_alone(tmp_path: Path, verdict: Verdict) -> None:
    path = tmp_path / "runs.jsonl"
    journal = ValidationJournal(path, "60 memory=1Gi")
    limited = ValidationRun.of(TASK, "gold", verdict, journal.limits)
    for each in (limited, ValidationRun.of(TASK, "empty", Verdict("unresolved"), journal.limits)):
        journal.add(each)
    assert [each.kind for each in ValidationJournal(path, "60 memory=1Gi").runs(TASK)] == ["gold", "empty"]
    assert [each.kind for each in ValidationJournal(path, "600 memory=1Gi").runs(TASK)] == ["empty"]


def test_truncated_line_loses_only_that_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    journal = ValidationJournal(path)
    journal.add(GOLD)
    path.write_bytes(path.read_bytes() + b'{"instance_id": "o__r-1", "ki')
    reopened = ValidationJournal(path)
    reopened.add(EMPTY)
    assert ValidationJournal(path).runs(TASK) == [GOLD, EMPTY]


def test_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"instance_id": "o__r-1"}\n')
    with pytest.raises(TaskError, match=r"not a run of a check: .*runs\.jsonl:1"):
        ValidationJournal(path)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file of this process can grow."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


def test_full_disk_keeps_the_runs_before(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "runs.jsonl"
    journal = ValidationJournal(path)
    journal.add(GOLD)
    request.getfixturevalue("full_disk")
    with pytest.raises(TaskError, match="cannot be written: File too large; the runs before are kept"):
        journal.add(EMPTY)
    assert ValidationJournal(path).runs(TASK) == [GOLD]


def found_flaky(task: Task = TASK) -> Quarantined:
    runs = (GOLD, run("gold", "unresolved", "t::b"), EMPTY)
    found = TaskValidation(
        task, tuple(replace(validation_run, instance_id=task.instance_id) for validation_run in runs)
    ).quarantined
    assert found is not None
    return found


def test_quarantine_names_tasks_and_evidence(tmp_path: Path) -> None:
    path = tmp_path / "quarantine.jsonl"
    update_quarantine(path, [found_flaky()], checked={"o__r-1"})
    assert read_quarantine(path) == {"o__r-1"}
    assert '"failed": ["t::b"]' in path.read_text()
    path.write_text("{}\n")
    with pytest.raises(TaskError, match=r"quarantine\.jsonl:1: field instance_id is missing"):
        read_quarantine(path)


def test_check_changes_the_quarantine_of_its_own_tasks_alone(tmp_path: Path) -> None:
    path, other_task = tmp_path / "quarantine.jsonl", replace(TASK, instance_id="o__r-2")
    update_quarantine(path, [found_flaky(), found_flaky(other_task)], checked={"o__r-1", "o__r-2"})
    update_quarantine(path, [], checked={"o__r-1"})
    assert read_quarantine(path) == {"o__r-2"}
