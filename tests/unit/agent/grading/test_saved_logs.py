"""Logs of earlier gradings are graded again without a cluster, and never better than their run could be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.grading.predictions import PredictionError
from swerl_agent.grading.saved_logs import saved_runs

ROW = {
    "instance_id": "kit__kit-1",
    "repo": "kit/kit",
    "base_commit": "a" * 40,
    "problem_statement": "It breaks.",
    "patch": "diff --git a/x b/x\n",
    "eval_script": "pytest",
    "FAIL_TO_PASS": ["t.py::test_a"],
    "PASS_TO_PASS": ["t.py::test_b"],
    "image": "swe-rl/task-kit:1",
}
LOG = "+ : '>>>>> Start Test Output'\n{}\n+ : '>>>>> End Test Output'\n"
PASSED = LOG.format("PASSED t.py::test_a\nPASSED t.py::test_b")
FAILED = LOG.format("FAILED t.py::test_a - x\nPASSED t.py::test_b")
PATCH = "diff --git a/y b/y\n"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return tmp_path / "saved"


def save(root: Path, log: str | None, report: dict[str, Any] | None = None, name: str = "kit__kit-1") -> None:
    """What a run of the model `m` left; `report`: with the keys of a Verdict."""
    folder = root / "m" / name
    folder.mkdir(parents=True)
    (folder / "patch.diff").write_text(PATCH)
    if log is not None:
        (folder / "test_output.txt").write_text(log)
    if report is not None:
        (folder / "report.json").write_text(json.dumps({name: report}))


def graded_again(saved: Path, code: int = 0, **changes: Any) -> dict[str, Any]:
    """The report of the new grading."""
    tasks, output_folder = saved.parent / "tasks.jsonl", saved.parent / "out"
    tasks.write_text(json.dumps(ROW | changes) + "\n")
    assert main(["grade", "--logs", str(saved), "--tasks", str(tasks), "--output", str(output_folder)]) == code
    report: dict[str, Any] = json.loads((output_folder / "m/kit__kit-1/report.json").read_text())["kit__kit-1"]
    return report


def test_a_log_is_graded_by_the_tests_of_today(saved: Path) -> None:
    save(saved, FAILED, {"status": "unresolved", "resolved": False})
    report = graded_again(saved)
    assert (report["status"], report["detail"]) == (
        "unresolved",
        "FAIL_TO_PASS 0/1, PASS_TO_PASS 1/1, by the saved log alone",
    )
    regraded = graded_again(saved, FAIL_TO_PASS=["t.py::test_b"], PASS_TO_PASS=[])
    assert (regraded["status"], regraded["witnessed"], regraded["patch_exists"]) == ("resolved", False, True)
    summary = json.loads((saved.parent / "out/m.json").read_text())
    assert (summary["resolved_ids"], summary["unwitnessed_ids"]) == (["kit__kit-1"], ["kit__kit-1"])
    assert (saved.parent / "out/m/kit__kit-1/test_output.txt").read_text() == FAILED


def test_a_log_of_the_harness_has_no_report_beside_it(saved: Path) -> None:
    save(saved, PASSED)
    assert graded_again(saved)["status"] == "resolved"


@pytest.mark.parametrize(
    ("earlier", "message"),
    [
        ({"status": "unresolved", "tampering": ["a forged line"]}, "tampering: a forged line"),
        ({"status": "unresolved", "contrast": "failed", "detail": "contrast: t"}, "contrast: t"),
        ({"status": "unresolved", "log_bytes_left_out": 7}, "7 bytes of its middle were not kept"),
    ],
)
def test_what_its_run_showed_against_a_patch_stays(saved: Path, earlier: dict[str, Any], message: str) -> None:
    save(saved, PASSED, earlier)
    report = graded_again(saved)
    assert report["status"] == "unresolved" and not report["resolved"] and message in report["detail"]


@pytest.mark.parametrize("status", ["policy_blocked", "patch_apply_failed"])
def test_a_patch_that_ran_no_tests_keeps_its_verdict(saved: Path, status: str) -> None:
    save(saved, "error: patch failed", {"status": status, "detail": "why", "resolved": False})
    report = graded_again(saved)
    assert (report["status"], report["detail"]) == (status, "why")


def test_an_infrastructure_failure_stays_one(saved: Path) -> None:
    save(saved, None, {"status": "infra_error", "detail": "no node", "resolved": False})
    assert graded_again(saved, code=3)["status"] == "infra_error"


def test_a_log_that_no_parser_reads_is_unresolved(saved: Path) -> None:
    save(saved, LOG.format("ERROR:"))
    report = graded_again(saved, log_parser="parse_log_django")
    assert report["status"] == "unresolved" and "cannot be read by parse_log_django" in report["detail"]


def test_logs_of_no_task_are_wrong_input(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(saved, PASSED)
    save(saved, PASSED, name="other__other-1")
    graded_again(saved, code=2)
    assert "no task has the id of these predictions: other__other-1" in capsys.readouterr().err


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(PredictionError, match=r"holds no MODEL/INSTANCE_ID/test_output.txt or report.json"):
        saved_runs(tmp_path)
    folder = tmp_path / "m/x"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("[]")
    with pytest.raises(PredictionError, match=r"report\.json: is not a report of one instance"):
        saved_runs(tmp_path)
